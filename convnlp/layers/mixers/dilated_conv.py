"""Dilated convolution: one filter per channel, with its taps spread out."""

import keras

from convnlp.layers.conv_mixer import StaticConvMixer


@keras.saving.register_keras_serializable(package="convnlp")
class DilatedConv(StaticConvMixer):
    """Depthwise convolution with one filter per channel and taps r positions apart.

        y[i, c] = sum_j W[c, j] x[i + r (j - p), c]          W: [D,K]

    p = (K - 1) // 2, or K - 1 if causal: an even kernel reaches r positions further right than left. A stack
    of layers sees 1 + sum (K_l - 1) r_l positions.

    Source: Tay et al., 2021, "Are Pre-trained Convolutions Better than Pre-trained Transformers?", section
    3.1, https://arxiv.org/abs/2105.03322.
    Departs from it: the paper gives filter sizes but no dilation rates, so both are arguments of every layer;
    it does not say to which side an even kernel reaches further.

    Masking: inputs at pads are zero. Causality: yes. Packing: taps that reach into another text meet zeros.
    Cost: D K parameters, T K D multiply-adds, a state of (K - 1) r D elements.

    Args:
        hidden_dim: int. Width D.
        kernel_size: int. Number K of taps, >= 1, odd or even. Defaults to `7`.
        dilation_rate: int. Distance r between neighbouring taps, >= 1. Defaults to `1`.
        weight_softmax: bool. Whether filters are normalised by a softmax. Defaults to `False`.
        kernel_dropout: float in [0, 1). Share of the taps dropped in training. Defaults to `0.0`.
        causal: bool. Whether an output sees only its own and earlier positions. Defaults to `False`.
        double_gate: bool. Whether the block around it also has a gate after it, as in LFM2; see
            `GLUConvBlock`. Defaults to `False`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int or `kernel_dropout` is not in [0, 1).

    Example:
    >>> mixer = DilatedConv(hidden_dim=8, kernel_size=4, dilation_rate=5)
    >>> mixer(tf.ones([2, 20, 8])).shape
    TensorShape([2, 20, 8])
    >>> mixer.receptive_field(20)
    16
    """

    name = "dilated_conv"

    def __init__(
        self,
        hidden_dim,
        kernel_size=7,
        dilation_rate=1,
        weight_softmax=False,
        kernel_dropout=0.0,
        causal=False,
        double_gate=False,
        **kwargs,
    ):
        super().__init__(
            hidden_dim,
            hidden_dim,
            kernel_size,
            dilation_rate,
            weight_softmax,
            kernel_dropout,
            causal,
            double_gate,
            **kwargs,
        )

    def get_config(self):
        config = super().get_config()
        del config["num_heads"]
        return config
