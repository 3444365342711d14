"""A bag of hashed n-grams: which tokens and pairs of neighbours a text has, wherever they are in it."""

import keras
import tensorflow as tf

from convnlp.layers.checks import require_count
from convnlp.layers.table_rows import gather_rows

_FACTORS = (31_337, 28_411)  # for a single token and for the first of a pair; below 2**15, see `_buckets`
MAX_BUCKETS = 2**16  # so that a bucket times a factor is an int32
SCALE = 10.0


@keras.saving.register_keras_serializable(package="convnlp")
class HashedNgrams(keras.layers.Layer):
    """y = s / sqrt(n) sum_i E[h_i], over the n tokens and pairs of neighbours i of a text.

    h hashes token ids to M buckets; E [M,D] is a learned table. The constant s = 10 makes the table learn
    fast enough at the small learning rates of fine-tuning. Many classes are decided by single words, and an
    encoder of a few layers does not know all of them.

    Source: Joulin et al., 2017, "Bag of Tricks for Efficient Text Classification", section 2,
    https://arxiv.org/abs/1607.01759.
    Departs from it: n-grams of tokens rather than of words; a sum divided by sqrt(n) rather than a mean, so
    that its size does not depend on n.

    Args:
        num_buckets: int in [1, 2**16]. M.
        output_dim: int. D.
        **kwargs: `name` of the Keras layer, which computes in float32.

    Attributes:
        row_scales: float32 [M], the scales of an int8 table, see `convnlp.models.int8_tables`; None except on
            export.

    Raises:
        ValueError: if a size is out of its range.

    Example:
    >>> layer = HashedNgrams(num_buckets=64, output_dim=4)
    >>> layer(tf.constant([[7, 8, 1, 0]]), tf.constant([[True, True, True, False]])).shape
    TensorShape([1, 4])
    """

    row_scales = None

    def __init__(self, num_buckets, output_dim, **kwargs):
        super().__init__(**{"dtype": "float32", **kwargs})
        require_count("num_buckets", num_buckets)
        require_count("output_dim", output_dim)
        if num_buckets > MAX_BUCKETS:
            raise ValueError(f"`num_buckets` must be at most {MAX_BUCKETS}. Received: {num_buckets}")
        self.num_buckets = num_buckets
        self.output_dim = output_dim

    def build(self, token_ids_shape, padding_mask_shape=None):
        self.table = self.add_weight(
            name="ngram_embeddings",
            shape=(self.num_buckets, self.output_dim),
            initializer=keras.initializers.RandomUniform(-1 / self.num_buckets, 1 / self.num_buckets),
        )

    def call(self, token_ids, padding_mask):
        """Maps token_ids int [B,T] and padding_mask bool [B,T], True = token, to float32 [B,D]."""
        buckets, is_present = self.buckets(token_ids, padding_mask)
        present = tf.cast(is_present, tf.float32)
        rows = gather_rows(self.table, self.row_scales, buckets)  # [B,2T-1,D]
        count = tf.reduce_sum(present, axis=1, keepdims=True)  # [B,1]
        total = tf.reduce_sum(rows * tf.expand_dims(present, 2), axis=1)  # [B,D]
        return total * (SCALE * tf.math.rsqrt(tf.maximum(count, 1.0)))

    def buckets(self, token_ids, padding_mask):
        """Returns the buckets of all n-grams, int32 [B,2T-1], and which are in the text, bool [B,2T-1]."""
        is_present = tf.concat(
            [padding_mask, tf.logical_and(padding_mask[:, 1:], padding_mask[:, :-1])], axis=1
        )
        return tf.concat(self._buckets(token_ids), axis=1), is_present

    def _buckets(self, token_ids):
        """Returns the buckets of tokens, int32 [B,T], and of pairs, [B,T-1]; no product overflows int32."""
        own, first = (tf.math.floormod(token_ids, self.num_buckets) * factor for factor in _FACTORS)
        single = tf.math.floormod(own, self.num_buckets)
        pair = tf.math.floormod(first, self.num_buckets)[:, :-1] + token_ids[:, 1:]
        return single, tf.math.floormod(pair, self.num_buckets)

    def compute_output_shape(self, token_ids_shape, padding_mask_shape=None):
        return (token_ids_shape[0], self.output_dim)

    def get_config(self):
        return {**super().get_config(), "num_buckets": self.num_buckets, "output_dim": self.output_dim}
