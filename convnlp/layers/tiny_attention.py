"""aMLP's attention: one head of a few channels beside a gate."""

import keras
import tensorflow as tf

from convnlp.kernels import masked_softmax
from convnlp.layers.cache import write
from convnlp.layers.masks import visible_in_cache
from convnlp.layers.projection import projection


class TinyAttention(keras.layers.Layer):
    """softmax(Q K^T) V W_O with Q, K, V = X W_Q, X W_K, X W_V, each [T,A].

    The usual factor A^-1/2 is part of the initial W_Q instead of the equation.

    Source: Liu et al., 2021, "Pay Attention to MLPs", section 4.3, https://arxiv.org/abs/2105.08050.

    Args:
        attention_dim: int. A.
        output_dim: int. E, the width of the output.
        **kwargs: `name` and `dtype` of the Keras layer.
    """

    def __init__(self, attention_dim, output_dim, **kwargs):
        super().__init__(**kwargs)
        self.attention_dim = attention_dim
        self.output_dim = output_dim
        dtype = self.dtype_policy
        self.query = projection(attention_dim, attention_dim**-0.5, dtype=dtype, name="query")
        self.key = projection(attention_dim, dtype=dtype, name="key")
        self.value = projection(attention_dim, dtype=dtype, name="value")
        self.output_projection = projection(output_dim, dtype=dtype, name="output")

    def build(self, input_shape):
        for layer in (self.query, self.key, self.value):
            layer.build(input_shape)
        self.output_projection.build((*input_shape[:-1], self.attention_dim))

    def _attend(self, queries, keys, values, visible):
        """Attends from queries [B,Q,A] to keys and values [B,K,A] -> [B,Q,E].

        `visible` is bool [B or 1,Q or 1,K], or None if all keys are visible.
        """
        logits = tf.matmul(queries, keys, transpose_b=True)  # [B,Q,K]
        weights = masked_softmax(logits, visible)  # [B,Q,K]
        return self.output_projection(tf.matmul(weights, values))

    def call(self, x, visible):
        """Maps x [B,T,D], zero at pads, to [B,T,E]; `visible` is from `Masks.visible_keys`."""
        return self._attend(self.query(x), self.key(x), self.value(x), visible)

    def empty_state(self, batch_size, max_length):
        """See `TokenMixer.empty_state`."""
        zeros = tf.zeros([batch_size, max_length, self.attention_dim], self.compute_dtype)
        return {"keys": zeros, "values": zeros}

    def step(self, x_chunk, state, index):
        """See `TokenMixer.step`: x_chunk [B,C,D] -> ([B,C,E], state)."""
        keys = write(state["keys"], self.key(x_chunk), index)
        values = write(state["values"], self.value(x_chunk), index)
        visible = visible_in_cache(index, tf.shape(x_chunk)[1], tf.shape(keys)[1])
        y = self._attend(self.query(x_chunk), keys, values, visible)
        return y, {"keys": keys, "values": values}

    def cost(self, length, dim):
        """Like `TokenMixer.cost`, for a text of `length` with `dim` channels."""
        size = self.attention_dim
        projections = 3 * dim * size + size * self.output_dim
        return {
            "parameters": projections,
            "multiply_adds": length * projections + 2 * length**2 * size,
            "state_elements": 2 * length * size,
        }
