"""T5's self-attention: the Transformer baseline."""

import keras
import tensorflow as tf

from convnlp.layers.dropout import Dropout
from convnlp.layers.projection import projection
from convnlp.layers.relative_position_bias import RelativePositionBias
from convnlp.layers.token_mixer import TokenMixer, require_heads, require_rate

# Added to the logits of keys that must not be seen; finite, so that a row of pads stays free of NaN.
HIDDEN = -1e9


@keras.saving.register_keras_serializable(package="convnlp")
class SelfAttention(TokenMixer):
    """Multi-head attention with T5's relative position bias.

        A = softmax(Q K^T + b)         Q, K, V = X W_Q, X W_K, X W_V, each [T,D] split into H heads
        Y = concat_h(A V) W_O          b[h, i, j] = table[h, bucket(j - i)]

    The usual 1 / sqrt(D / H) is part of the first W_Q instead of the equation.

    Source: Vaswani et al., 2017, equation 1, https://arxiv.org/abs/1706.03762; Raffel et al., 2020, section
    2.1, https://arxiv.org/abs/1910.10683.
    Departs from it: every layer has a bias table of its own where T5 shares one in a stack.

    Masking: pads are hidden as keys. Causality: yes. Packing: keys of other texts are hidden.
    Cost: 4 D^2 + 32 H parameters, 4 T D^2 + 2 T^2 D multiply-adds, a state of 2 T D elements.

    Args:
        hidden_dim: int. Width D.
        num_heads: int. Number H of heads; divides D.
        dropout: float in [0, 1). Share of the attention weights dropped in training. Defaults to `0.0`.
        causal: bool. Whether an output sees only its own and earlier positions. Defaults to `False`.
        output_init_scale: float. Factor on the standard deviation of the first W_O. Defaults to `1.0`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int or `num_heads` does not divide `hidden_dim`.

    Example:
    >>> mixer = SelfAttention(hidden_dim=8, num_heads=2, causal=True)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> y, state = mixer.step(tf.ones([2, 1, 8]), mixer.init_state(batch_size=2, max_length=5), 0)
    >>> {name: value.shape for name, value in state.items()}
    {'keys': TensorShape([2, 5, 2, 4]), 'values': TensorShape([2, 5, 2, 4])}
    """

    gated = False

    def __init__(self, hidden_dim, num_heads, dropout=0.0, causal=False, output_init_scale=1.0, **kwargs):
        super().__init__(hidden_dim, causal, **kwargs)
        require_heads(hidden_dim, num_heads)
        require_rate("dropout", dropout)
        self.num_heads = num_heads
        self.dropout = dropout
        self.output_init_scale = output_init_scale
        dtype = self.dtype_policy
        head_dim = hidden_dim // num_heads
        self.query = projection(hidden_dim, head_dim**-0.5, dtype=dtype, name="query")
        self.key = projection(hidden_dim, dtype=dtype, name="key")
        self.value = projection(hidden_dim, dtype=dtype, name="value")
        self.output_projection = projection(hidden_dim, output_init_scale, dtype=dtype, name="output")
        self.bias = RelativePositionBias(num_heads, bidirectional=not causal, dtype=dtype, name="bias")
        self._dropout = Dropout(dropout, dtype=dtype, name="dropout")

    def build(self, input_shape):
        super().build(input_shape)
        for layer in (self.query, self.key, self.value, self.output_projection, self.bias):
            layer.build(input_shape)

    def _heads(self, x):
        shape = tf.shape(x)
        return tf.reshape(
            x, [shape[0], shape[1], self.num_heads, self.hidden_dim // self.num_heads]
        )  # [B,T,H,D/H]

    def _attend(self, queries, keys, values, bias, training=False):
        """Queries [B,Q,H,D/H], keys and values [B,K,H,D/H], bias float32 [B or 1,H or 1,Q,K] -> [B,Q,D]."""
        logits = tf.einsum("bqhd,bkhd->bhqk", queries, keys)  # [B,H,Q,K]
        weights = tf.nn.softmax(tf.cast(logits, tf.float32) + bias)
        weights = self._dropout(tf.cast(weights, self.compute_dtype), training=training)
        mixed = tf.einsum("bhqk,bkhd->bqhd", weights, values)  # [B,Q,H,D/H]
        shape = tf.shape(mixed)
        return self.output_projection(tf.reshape(mixed, [shape[0], shape[1], self.hidden_dim]))  # [B,Q,D]

    def mix(self, x, padding_mask, segment_ids, training):
        positions = tf.range(tf.shape(x)[1])
        bias = tf.expand_dims(self.bias(positions, positions), 0)  # [1,H,T,T]
        if self.causal:
            bias += _hide(positions <= tf.expand_dims(positions, 1))  # [T,T]
        if segment_ids is not None:
            same = tf.expand_dims(segment_ids, 1) == tf.expand_dims(segment_ids, 2)  # [B,T,T]
            bias += tf.expand_dims(_hide(same), 1)  # [B,1,T,T]
        if padding_mask is not None:
            bias += tf.expand_dims(tf.expand_dims(_hide(padding_mask), 1), 1)  # [B,1,1,T]
        queries, keys, values = (self._heads(project(x)) for project in (self.query, self.key, self.value))
        return self._attend(queries, keys, values, bias, training)

    def empty_state(self, batch_size, max_length):
        shape = [batch_size, max_length, self.num_heads, self.hidden_dim // self.num_heads]
        return {"keys": tf.zeros(shape, self.compute_dtype), "values": tf.zeros(shape, self.compute_dtype)}

    def advance(self, x_chunk, state, index):
        positions = tf.range(tf.shape(state["keys"])[1])  # [L]
        keys = _write(state["keys"], self._heads(self.key(x_chunk)), positions, index)
        values = _write(state["values"], self._heads(self.value(x_chunk)), positions, index)
        chunk_positions = index + tf.range(tf.shape(x_chunk)[1])  # [C]
        bias = tf.expand_dims(self.bias(chunk_positions, positions), 0)  # [1,H,C,L]
        bias += _hide(positions <= tf.expand_dims(chunk_positions, 1))  # [C,L]
        y = self._attend(self._heads(self.query(x_chunk)), keys, values, bias)
        return y, {"keys": keys, "values": values}

    def receptive_field(self, length):
        return length

    def cost(self, length):
        table = self.num_heads * self.bias.num_buckets
        return {
            "parameters": 4 * self.hidden_dim**2 + table,
            "multiply_adds": 4 * length * self.hidden_dim**2 + 2 * length**2 * self.hidden_dim,
            "state_elements": 2 * length * self.hidden_dim,
        }

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "dropout": self.dropout,
            "output_init_scale": self.output_init_scale,
        }


def _hide(visible):
    """Bool -> float32 to add to logits: 0 where visible."""
    return tf.where(visible, 0.0, HIDDEN)


def _write(cache, chunk, positions, index):
    """Cache [B,L,H,D/H] with chunk [B,C,H,D/H] at index .. index + C - 1; shapes stay fixed for any index."""
    last = tf.shape(chunk)[1] - 1
    source = positions - index  # [L]
    moved = tf.gather(chunk, tf.clip_by_value(source, 0, last), axis=1)  # [B,L,H,D/H]
    inside = (source >= 0) & (source <= last)
    return tf.where(inside[tf.newaxis, :, tf.newaxis, tf.newaxis], moved, cache)
