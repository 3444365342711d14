"""Tells a model where each token stands, for mixers that do not know the order of tokens."""

import math

import keras
import tensorflow as tf

from convnlp.layers.checks import length_rule, with_length_limit
from convnlp.layers.masks import positions_in_segments
from convnlp.models.token_embedding import INPUT_SCALE

POSITION_EMBEDDINGS = ("learned", "sinusoidal")
_WHY_LIMITED = "the learned position embedding has a row for each of them"
_LONGEST_WAVE = 10_000.0  # over 2 pi, in positions


@keras.saving.register_keras_serializable(package="convnlp")
class PositionEmbedding(keras.layers.Layer):
    """Adds a vector for the position to each token embedding.

        learned       y[i] = x[i] + P[i]                                     P: [L,D]
        sinusoidal    y[i] = x[i] + s [sin(i w_0) .. sin(i w_{D/2-1}), cos(i w_0) .. cos(i w_{D/2-1})]

    w_k = 10000^(-2 k / D). P starts with the standard deviation of the token embeddings. s = 0.25 is the
    factor by which `TokenEmbedding` multiplies its unit-variance embeddings, so that their ratio is that of
    the source.

    Source: Vaswani et al., 2017, "Attention Is All You Need", section 3.5, https://arxiv.org/abs/1706.03762.
    Departs from it: sines and cosines fill two halves instead of alternating, which permutes the channels.

    Packing: positions count from the start of each text. Cost: L D parameters if learned, else none.

    Args:
        kind: "learned" or "sinusoidal".
        hidden_dim: int. D.
        max_sequence_length: int. L, the number of positions of a learned table; sinusoids have no limit.
        **kwargs: `name` and `dtype` of the Keras layer.

    Raises:
        ValueError: if `kind` is another; when called, if a learned table has fewer positions than x.

    Example:
    >>> layer = PositionEmbedding("sinusoidal", hidden_dim=8, max_sequence_length=16)
    >>> layer(tf.zeros([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    """

    def __init__(self, kind, hidden_dim, max_sequence_length, **kwargs):
        super().__init__(**kwargs)
        if kind not in POSITION_EMBEDDINGS:
            raise ValueError(f"`kind` must be one of {', '.join(POSITION_EMBEDDINGS)}. Received: {kind!r}")
        self.kind = kind
        self.hidden_dim = hidden_dim
        self.max_sequence_length = max_sequence_length

    def build(self, *_):
        if self.kind == "learned":
            self.position_embeddings = self.add_weight(
                name="position_embeddings",
                shape=(self.max_sequence_length, self.hidden_dim),
                initializer=keras.initializers.RandomNormal(stddev=INPUT_SCALE),
            )

    def call(self, x, segment_ids=None, start=0):
        """Returns the sum.

        Args:
            x: float tensor [B,T,D].
            segment_ids: int32 tensor [B,T], for packed rows: each text counts from its own start. Defaults to
                one text per row.
            start: int, or int32 tensor [] or [B,1]. The position of the first token. Defaults to `0`.

        Returns:
            Tensor [B,T,D] of x's type.
        """
        if self.kind == "learned":
            limit = self.max_sequence_length
            x = with_length_limit(x, "token_ids", "max_sequence_length", limit, _WHY_LIMITED)
        if segment_ids is None:
            positions = tf.expand_dims(tf.range(tf.shape(x)[1]), 0) + start  # [B or 1,T]
        else:
            positions = positions_in_segments(tf.cast(segment_ids, tf.int32))  # [B,T]
        if self.kind == "learned":
            with tf.control_dependencies(self._checks(positions, start)):
                positions = tf.identity(positions)
            return x + tf.cast(tf.gather(self.position_embeddings, positions), x.dtype)
        return x + tf.cast(INPUT_SCALE * self._waves(positions), x.dtype)

    def _checks(self, positions, start):
        """Returns assertions that the table is long enough; from start 0, the length of x has shown that."""
        if isinstance(start, int) and start == 0:
            return []
        rule = length_rule("token_ids", "max_sequence_length", self.max_sequence_length, _WHY_LIMITED)
        last = tf.reduce_max(positions) + 1
        return [tf.debugging.Assert(last <= self.max_sequence_length, [rule, last])]

    def _waves(self, positions):
        """Returns the sinusoids float32 [B,T,D] for positions int32 [B,T]."""
        half = -(-self.hidden_dim // 2)
        steps = tf.range(half, dtype=tf.float32)
        frequencies = tf.exp(steps * (-2.0 * math.log(_LONGEST_WAVE) / self.hidden_dim))  # [D/2]
        angles = tf.expand_dims(tf.cast(positions, tf.float32), 2) * frequencies  # [B,T,D/2]
        return tf.concat([tf.sin(angles), tf.cos(angles)], axis=2)[:, :, : self.hidden_dim]

    def num_parameters(self):
        """Returns the number of elements of the table."""
        return self.max_sequence_length * self.hidden_dim if self.kind == "learned" else 0

    def get_config(self):
        return {
            **super().get_config(),
            "kind": self.kind,
            "hidden_dim": self.hidden_dim,
            "max_sequence_length": self.max_sequence_length,
        }
