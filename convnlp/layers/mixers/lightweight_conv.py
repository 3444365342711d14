"""Lightweight convolution: a few softmax-normalised filters, shared by blocks of channels."""

import keras

from convnlp.layers.conv_mixer import StaticConvMixer


@keras.saving.register_keras_serializable(package="convnlp")
class LightweightConv(StaticConvMixer):
    """Depthwise convolution with H normalised filters.

        w = softmax_j(W)                                     W: [H,K]
        y[i, c] = sum_j w[h(c), j] x[i + r (j - p), c]       h(c) = c // (D / H)

    p = (K - 1) // 2, or K - 1 if causal: an even kernel reaches r positions further right than left.

    Source: Wu et al., 2019, "Pay Less Attention with Lightweight and Dynamic Convolutions", section 3,
    https://arxiv.org/abs/1901.10430; Tay et al., 2021, section 3.1, https://arxiv.org/abs/2105.03322.
    Departs from it: each filter belongs to a contiguous block of channels (the release of Tay et al. ends up
    with one filter per channel, whatever its setting); there is a dilation rate r. In the equation of Wu et
    al., an even kernel reaches one position further left than right; here, as in their code, it reaches
    further right.

    Masking: inputs at pads are zero. Causality: yes. Packing: taps that reach into another text meet zeros.
    Cost: H K parameters, T K D multiply-adds, a state of (K - 1) r D elements.

    Args:
        hidden_dim: int. Width D.
        num_heads: int. Number H of filters; divides D.
        kernel_size: int. Number K of taps, >= 1, odd or even. Defaults to `7`.
        dilation_rate: int. Distance r between neighbouring taps, >= 1. Defaults to `1`.
        weight_softmax: bool. Whether filters are normalised by a softmax. Defaults to `True`.
        kernel_dropout: float in [0, 1). Share of the taps dropped in training. Defaults to `0.0`.
        causal: bool. Whether an output sees only its own and earlier positions. Defaults to `False`.
        double_gate: bool. Whether the block around it also has a gate after it, as in LFM2; see
            `GLUConvBlock`. Defaults to `False`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, `num_heads` does not divide `hidden_dim`, or
            `kernel_dropout` is not in [0, 1).

    Example:
    >>> mixer = LightweightConv(hidden_dim=8, num_heads=2, kernel_size=3)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> mixer.cost(5)
    {'parameters': 6, 'multiply_adds': 120, 'state_elements': 16}
    """

    name = "lightweight_conv"
