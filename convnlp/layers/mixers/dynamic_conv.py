"""Dynamic convolution: every position generates its own filters."""

import keras
import tensorflow as tf

from convnlp import kernels
from convnlp.layers.conv_mixer import ConvMixer
from convnlp.layers.projection import Projection


@keras.saving.register_keras_serializable(package="convnlp")
class DynamicConv(ConvMixer):
    """Lightweight convolution whose filters are computed from the position that they are applied at.

        w[i] = softmax_j(x[i] W)                             W: [D,H*K], w[i]: [H,K]
        y[i, c] = sum_j w[i, h(c), j] x[i + r (j - p), c]    h(c) = c // (D / H)

    p = (K - 1) // 2, or K - 1 if causal: an even kernel reaches r positions further right than left.

    Source: Wu et al., 2019, "Pay Less Attention with Lightweight and Dynamic Convolutions", section 4,
    https://arxiv.org/abs/1901.10430; Tay et al., 2021, section 3.1, https://arxiv.org/abs/2105.03322.
    Departs from it: each filter belongs to a contiguous block of channels; there is a dilation rate r. In the
    equation, an even kernel reaches one position further left than right; here, as in the authors' code, it
    reaches further right. Also as in their code, x is the input of the convolution, which inside its block is
    the gate's output.

    Masking: inputs at pads are zero. Causality: yes. Packing: taps that reach into another text meet zeros.
    Cost: D H K parameters, T K D (1 + H) multiply-adds, a state of (K - 1) r D elements.

    Args:
        hidden_dim: int. Width D.
        num_heads: int. Number H of filters at each position; divides D.
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
    >>> mixer = DynamicConv(hidden_dim=8, num_heads=2, kernel_size=3, causal=True)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> y, state = mixer.step(tf.ones([2, 1, 8]), mixer.init_state(batch_size=2, max_length=5), 0)
    >>> {name: value.shape for name, value in state.items()}
    {'inputs': TensorShape([2, 2, 8])}
    """

    name = "dynamic_conv"

    def __init__(
        self,
        hidden_dim,
        num_heads,
        kernel_size=7,
        dilation_rate=1,
        weight_softmax=True,
        kernel_dropout=0.0,
        causal=False,
        double_gate=False,
        **kwargs,
    ):
        super().__init__(
            hidden_dim,
            num_heads,
            kernel_size,
            dilation_rate,
            weight_softmax,
            kernel_dropout,
            causal,
            double_gate,
            **kwargs,
        )
        self.generator = Projection(num_heads * kernel_size, dtype=self.dtype_policy, name="generator")

    def build(self, input_shape):
        super().build(input_shape)
        self.generator.build(input_shape)

    def convolve(self, x, masks, training):
        # A block has already applied the padding mask in its gate, see `pads_are_zeros`.
        x = kernels.zero_pads(x, masks.padding_mask)
        taps, softmax = self._logits(x), self.weight_softmax
        if training and self.kernel_dropout:  # dropout comes between the softmax and the convolution
            taps, softmax = self.normalize(taps, training), False
        return kernels.dynamic_conv(
            x, taps, self.dilation_rate, self.causal, masks.segment_ids, softmax=softmax
        )

    def taps(self, x, training=False, kept=None):
        return self.normalize(self._logits(x), training, kept)

    def _logits(self, x):
        shape = tf.shape(x)
        return tf.reshape(
            self.generator(x), [shape[0], shape[1], self.num_heads, self.kernel_size]
        )  # [B,T,H,K]

    def cost(self, length):
        cost = super().cost(length)
        generator = self.hidden_dim * self.num_heads * self.kernel_size
        return {**cost, "parameters": generator, "multiply_adds": cost["multiply_adds"] + length * generator}
