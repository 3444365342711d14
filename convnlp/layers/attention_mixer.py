"""What the attention mixers share: projections, heads, a cache of keys and values, costs."""

import tensorflow as tf

from convnlp.kernels import (
    channels_by_head,
    masked_softmax,
    merge_heads,
    mix_by_head,
    scores_by_head,
    split_heads,
    zero_pads,
)
from convnlp.layers.cache import write
from convnlp.layers.checks import require_heads, require_rate
from convnlp.layers.dropout import Dropout
from convnlp.layers.masks import visible_in_cache
from convnlp.layers.projection import projection
from convnlp.layers.relative_position_bias import RelativePositionBias
from convnlp.layers.token_mixer import TokenMixer


class AttentionMixer(TokenMixer):
    """Multi-head attention: Y = concat_h(softmax(Q K^T + b) V) W_O with Q, K, V = X W_Q, X W_K, X W_V.

    The usual factor 1 / sqrt(D / H) is part of the initial W_Q. A subclass defines the `position_bias` b.

    Args:
        hidden_dim: int. Width D.
        num_heads: int. Number H of heads; divides D.
        dropout: float in [0, 1). Share of the attention weights dropped in training.
        causal: bool. Whether an output sees only its own and earlier positions.
        output_init_scale: float. Factor on the standard deviation of the initial W_O.
        **kwargs: `name` and `dtype` of the Keras layer.

    Raises:
        ValueError: if `num_heads` does not divide `hidden_dim` or `dropout` is not in [0, 1).
    """

    supports_prefix = True
    supports_right_to_left = True
    gated = False

    def __init__(self, hidden_dim, num_heads, dropout, causal, output_init_scale, **kwargs):
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
        self._dropout = Dropout(dropout, dtype=dtype, name="dropout")

    def build(self, input_shape):
        super().build(input_shape)
        for layer in (self.query, self.key, self.value, self.output_projection):
            layer.build(input_shape)

    @property
    def entry_projections(self):
        return self.query, self.key, self.value  # Keys at pads are masked, so their values do not matter.

    @property
    def exit_projections(self):
        return (self.output_projection,)

    def position_bias(self, query_positions, key_positions):
        """Returns the bias to add to the logits: int32 [Q] and [K] -> float32 [H,Q,K]."""
        raise NotImplementedError

    def attend(self, queries, keys, values, bias, visible, training=False):
        """Attends to the visible keys.

        Args:
            queries: tensor [B,Q,D].
            keys: tensor [B,K,H,D/H].
            values: tensor [B,K,H,D/H].
            bias: float32 tensor [H,Q,K].
            visible: bool tensor [B or 1,Q or 1,K], or None if all keys are visible.
            training: bool. Whether dropout is active.

        Returns:
            Tensor [B,Q,D].
        """
        scores = scores_by_head(split_heads(queries, self.num_heads), keys)  # [B,H,Q,K]
        weights = masked_softmax(scores, None if visible is None else tf.expand_dims(visible, 1), bias)
        mixed = mix_by_head(self._dropout(weights, training=training), values)  # [B,Q,H,D/H]
        return self.output_projection(merge_heads(mixed))  # [B,Q,D]

    def mix(self, x, masks, training):
        x = zero_pads(x, masks.padding_mask)
        return self.mix_values(x, self.value(x), masks, training)

    def mix_values(self, x, values, masks, training):
        """Like `mix`, for an x that is zero at pads and given values X W_V [B,T,D]."""
        positions = tf.range(tf.shape(x)[1])
        bias = self.position_bias(positions, positions)  # [H,T,T]
        visible = masks.visible_keys(x, self.causal)
        keys, values = (split_heads(part, self.num_heads) for part in (self.key(x), values))
        return self.attend(self.query(x), keys, values, bias, visible, training)

    def empty_state(self, batch_size, max_length):
        shape = [batch_size, max_length, *channels_by_head(self.hidden_dim, self.num_heads)]
        return {"keys": tf.zeros(shape, self.compute_dtype), "values": tf.zeros(shape, self.compute_dtype)}

    def advance(self, x_chunk, state, index):
        return self.advance_values(x_chunk, self.value(x_chunk), state, index)

    def advance_values(self, x_chunk, values, state, index):
        """Like `advance`, for given values X W_V [B,C,D]."""
        keys = write(state["keys"], split_heads(self.key(x_chunk), self.num_heads), index)
        values = write(state["values"], split_heads(values, self.num_heads), index)
        count, length = tf.shape(x_chunk)[1], tf.shape(keys)[1]
        bias = self.position_bias(index + tf.range(count), tf.range(length))  # [H,C,L]
        y = self.attend(self.query(x_chunk), keys, values, bias, visible_in_cache(index, count, length))
        return y, {"keys": keys, "values": values}

    def slide_window(self, x_chunk, state):
        """Appends a chunk [B,C,D] to a state that holds only the last R positions.

        Returns:
            Keys and values [B,R+C,H,D/H], and the state after the chunk.
        """
        chunk = tf.shape(x_chunk)[1]
        keys, values = (
            tf.concat([state[name], split_heads(project(x_chunk), self.num_heads)], axis=1)
            for name, project in (("keys", self.key), ("values", self.value))
        )
        rest = {"keys": keys[:, chunk:], "values": values[:, chunk:]}
        return keys, values, {name: tf.ensure_shape(part, state[name].shape) for name, part in rest.items()}

    def cost(self, length):
        """Like `TokenMixer.cost`, without the position bias."""
        return {
            "parameters": 4 * self.hidden_dim**2,
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


class BucketedAttentionMixer(AttentionMixer):
    """An `AttentionMixer` with T5's relative position bias.

    Args:
        hidden_dim, num_heads, dropout, causal, output_init_scale, **kwargs: as in `AttentionMixer`.
        bias_initializer: str, see `RelativePositionBias`. Defaults to `"normal"`.
    """

    def __init__(
        self,
        hidden_dim,
        num_heads,
        dropout,
        causal,
        output_init_scale,
        bias_initializer="normal",
        **kwargs,
    ):
        super().__init__(hidden_dim, num_heads, dropout, causal, output_init_scale, **kwargs)
        self.bias = RelativePositionBias(
            num_heads, not causal, bias_initializer, dtype=self.dtype_policy, name="bias"
        )

    def build(self, input_shape):
        super().build(input_shape)
        self.bias.build(input_shape)

    def position_bias(self, query_positions, key_positions):
        return self.bias(query_positions, key_positions)

    def cost(self, length):
        cost = super().cost(length)
        return {**cost, "parameters": cost["parameters"] + self.num_heads * self.bias.num_buckets}
