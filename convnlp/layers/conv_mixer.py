"""What the convolutional mixers share: normalised taps, a window of past inputs as state, costs."""

import keras
import tensorflow as tf

from convnlp import kernels
from convnlp.layers.dropout import Dropout
from convnlp.layers.token_mixer import TokenMixer, require_count, require_heads, require_rate, zero_pads


class ConvMixer(TokenMixer):
    """A depthwise convolution over time: y[i, c] = sum_j taps[h(c), j] x[i + r (j - p), c].

    p = K - 1 if causal, else (K - 1) // 2; h(c) = c // (D / H). Inputs outside the row, at pads and in other
    segments count as zero; the taps that would meet them are not renormalised. A subclass says where the taps
    come from.

    Args:
        hidden_dim: int. Width D.
        num_heads: int. Number H of different filters; each serves D / H neighbouring channels.
        kernel_size: int. Number K of taps, even or odd.
        dilation_rate: int. The distance r of neighbouring taps.
        weight_softmax: bool. Whether the taps of a filter are made positive with sum 1.
        kernel_dropout: float. Share of the taps dropped in training, after the softmax (DropConnect).
        causal: bool. Whether an output sees only its own and earlier positions.
        **kwargs: `name` and `dtype` of the Keras layer.
    """

    def __init__(
        self,
        hidden_dim,
        num_heads,
        kernel_size,
        dilation_rate,
        weight_softmax,
        kernel_dropout,
        causal,
        **kwargs,
    ):
        super().__init__(hidden_dim, causal, **kwargs)
        require_heads(hidden_dim, num_heads)
        require_count("kernel_size", kernel_size)
        require_count("dilation_rate", dilation_rate)
        require_rate("kernel_dropout", kernel_dropout)
        self.num_heads = num_heads
        self.kernel_size = kernel_size
        self.dilation_rate = dilation_rate
        self.weight_softmax = weight_softmax
        self.kernel_dropout = kernel_dropout
        self._dropout = Dropout(kernel_dropout, dtype=self.dtype_policy, name="kernel_dropout")

    def normalize(self, logits, training):
        """Logits [...,H,K] -> taps [...,H,K] in the compute type; the softmax runs in float32."""
        if self.weight_softmax:
            logits = tf.nn.softmax(tf.cast(logits, tf.float32), axis=-1)
        return self._dropout(tf.cast(logits, self.compute_dtype), training=training)

    def mix(self, x, padding_mask, segment_ids, training):
        taps = self.taps(x, training)
        conv = kernels.depthwise_conv if taps.shape.rank == 2 else kernels.dynamic_conv
        return conv(zero_pads(x, padding_mask), taps, self.dilation_rate, self.causal, segment_ids)

    def taps(self, x, training=False):
        """The taps [H,K], or [B,T,H,K] where each position of x [B,T,D] has its own."""
        raise NotImplementedError

    def empty_state(self, batch_size, max_length):
        return {"inputs": tf.zeros([batch_size, self._reach, self.hidden_dim], self.compute_dtype)}

    def advance(self, x_chunk, state, index):
        taps = self.taps(x_chunk)
        window = tf.concat([state["inputs"], x_chunk], axis=1)  # [B,(K-1)*r+C,D]
        conv = kernels.depthwise_conv_valid if taps.shape.rank == 2 else kernels.dynamic_conv_valid
        y = conv(window, taps, self.dilation_rate)
        return y, {"inputs": tf.ensure_shape(window[:, tf.shape(x_chunk)[1] :], state["inputs"].shape)}

    @property
    def _reach(self):
        return (self.kernel_size - 1) * self.dilation_rate

    def receptive_field(self, length):
        return min(length, self._reach + 1)

    def cost(self, length):
        return {
            "parameters": self.num_heads * self.kernel_size,
            "multiply_adds": length * self.kernel_size * self.hidden_dim,
            "state_elements": self._reach * self.hidden_dim,
        }

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "kernel_size": self.kernel_size,
            "dilation_rate": self.dilation_rate,
            "weight_softmax": self.weight_softmax,
            "kernel_dropout": self.kernel_dropout,
        }


class StaticConvMixer(ConvMixer):
    """A `ConvMixer` whose taps are weights."""

    def build(self, input_shape):
        super().build(input_shape)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.num_heads, self.kernel_size),
            initializer=keras.initializers.GlorotUniform(),
            autocast=False,  # The softmax reads it in float32.
        )

    def taps(self, x, training=False):
        return self.normalize(self.kernel, training)
