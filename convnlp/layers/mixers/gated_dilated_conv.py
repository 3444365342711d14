"""DGCNN's gated dilated convolution: each channel chooses between its input and a convolution."""

import keras
import tensorflow as tf

from convnlp.layers.checks import require_rate
from convnlp.layers.conv_mixer import FullConvMixer
from convnlp.layers.dropout import Dropout


@keras.saving.register_keras_serializable(package="convnlp")
class GatedDilatedConv(FullConvMixer):
    """Residual gated convolution over all channels, with taps r positions apart.

        [H, G] = Conv(X)                       kernel [K,D,2D]; taps at i + r (j - p)
        S = sigmoid(dropout(G))
        Y = X * (1 - S) + H * S

    p = (K - 1) // 2, or K - 1 if causal: an even kernel reaches r positions further right than left, as with
    the "same" padding of the source. H has no activation, and where the gate is closed, the input passes
    unchanged. The rates of a stack should not all be powers of two, or it sees only a grid of positions; for
    example, take 1, 2, 5, 1, 2, 5, 1, 1, 1.

    Source: Su Jianlin, 2018, DGCNN for reading comprehension, https://spaces.ac.cn/archives/5409.
    Departs from it: no bias; the skeleton adds a norm and a residual connection around Y, while the source
    stacks these layers directly. Public copies of the code swap S and 1 - S, which only flips the sign of G.

    Masking: inputs at pads are zero. Causality: yes. Packing: taps that reach into another text meet zeros.
    Cost: 2 K D^2 parameters, 2 K T D^2 multiply-adds, a state of (K - 1) r D elements.

    Args:
        hidden_dim: int. Width D.
        kernel_size: int. Number K of taps, >= 1, odd or even. Defaults to `3`.
        dilation_rate: int. Distance r between neighbouring taps, >= 1. Defaults to `1`.
        gate_dropout: float in [0, 1). Share of the gate's logits dropped in training. Defaults to `0.1`.
        causal: bool. Whether an output sees only its own and earlier positions. Defaults to `False`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int or `gate_dropout` is not in [0, 1).

    Example:
    >>> mixer = GatedDilatedConv(hidden_dim=8, dilation_rate=5)
    >>> mixer(tf.ones([2, 20, 8])).shape
    TensorShape([2, 20, 8])
    >>> mixer.receptive_field(20)
    11
    """

    name = "gated_dilated_conv"

    def __init__(self, hidden_dim, kernel_size=3, dilation_rate=1, gate_dropout=0.1, causal=False, **kwargs):
        initializer = keras.initializers.GlorotUniform()
        super().__init__(hidden_dim, kernel_size, dilation_rate, causal, initializer, **kwargs)
        require_rate("gate_dropout", gate_dropout)
        self.gate_dropout = gate_dropout
        self._dropout = Dropout(gate_dropout, dtype=self.dtype_policy, name="gate_dropout")

    def combine(self, x, linear, gate, training):
        gate = tf.sigmoid(self._dropout(gate, training=training))  # [B,T,D]
        return x + (linear - x) * gate

    def get_config(self):
        return {**super().get_config(), "gate_dropout": self.gate_dropout}
