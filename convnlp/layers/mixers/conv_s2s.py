"""The convolution block of Convolutional Sequence to Sequence Learning."""

import keras
import tensorflow as tf

from convnlp.layers.checks import require_rate
from convnlp.layers.conv_mixer import FullConvMixer
from convnlp.layers.dropout import Dropout


@keras.saving.register_keras_serializable(package="convnlp")
class ConvS2S(FullConvMixer):
    """Gated linear unit over a full convolution, with a residual connection that keeps the variance.

        [A, B] = Conv(dropout(X))              kernel [K,D,2D]; taps at i + j - p
        Y = sqrt(1/2) (X + A * sigmoid(B))

    p = (K - 1) // 2, or K - 1 if causal: an even kernel reaches one position further right than left.

    Source: Gehring et al., 2017, "Convolutional Sequence to Sequence Learning", sections 3.2, 3.4 and 3.5,
    https://arxiv.org/abs/1705.03122.
    Departs from it: allows even kernels, where the source has only odd ones; no bias and no weight
    normalisation; the skeleton around it has its own norm, residual connection and feed-forward sublayer; the
    attention of the decoder is the skeleton's.

    Masking: inputs at pads are zero. Causality: yes. Packing: taps that reach into another text meet zeros.
    Cost: 2 K D^2 parameters, 2 K T D^2 multiply-adds, a state of (K - 1) D elements.

    Args:
        hidden_dim: int. Width D.
        kernel_size: int. Number K of taps, >= 1, odd or even. Defaults to `3`.
        dropout: float in [0, 1). Share of the convolution's inputs dropped in training. Defaults to `0.0`.
        causal: bool. Whether an output sees only its own and earlier positions. Defaults to `False`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int or `dropout` is not in [0, 1).

    Example:
    >>> mixer = ConvS2S(hidden_dim=8, kernel_size=5, causal=True)
    >>> mixer(tf.ones([2, 20, 8])).shape
    TensorShape([2, 20, 8])
    >>> mixer.cost(20)["parameters"]
    640
    """

    name = "conv_s2s"

    def __init__(self, hidden_dim, kernel_size=3, dropout=0.0, causal=False, **kwargs):
        require_rate("dropout", dropout)
        # Section 3.5: the gate halves the deviation; dropout divides the variance by the share that it keeps.
        initializer = keras.initializers.VarianceScaling(4 * (1 - dropout), distribution="untruncated_normal")
        super().__init__(hidden_dim, kernel_size, 1, causal, initializer, **kwargs)
        self.dropout = dropout
        self._dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def prepare(self, x, training):
        return self._dropout(x, training=training)

    def combine(self, x, linear, gate, training):
        return 0.5**0.5 * (x + linear * tf.sigmoid(gate))

    def get_config(self):
        config = super().get_config()
        del config["dilation_rate"]
        return {**config, "dropout": self.dropout}
