"""A bag of n-grams: which tokens and pairs of neighbours a text has, wherever they are in it."""

import keras
import tensorflow as tf

from convnlp.layers.checks import require_count
from convnlp.layers.table_rows import gather_rows

_FACTORS = (12_799, 15_383)  # for a single token and for the first of a pair; below 2**14, see `_buckets`
MAX_BUCKETS = 2**17  # so that a bucket times a factor is an int32
SCALE = 10.0
_EMPTY = -1  # key of a bucket that keeps nothing


@keras.saving.register_keras_serializable(package="convnlp")
class HashedNgrams(keras.layers.Layer):
    """y = s / sqrt(n) sum_i E[h_i], over the n tokens and pairs of neighbours i of a text that are kept.

    h hashes token ids to M buckets; E [M,D] is a learned table. Each bucket keeps one token or pair, which
    `adapt` chooses; all others that fall into it do not count. A text's n-grams count once, however often
    they occur. The constant s = 10 makes the table learn fast enough at the small learning rates of
    fine-tuning. Many classes are decided by single words, and an encoder of a few layers does not know all of
    them.

    Source: Joulin et al., 2017, "Bag of Tricks for Efficient Text Classification", section 2,
    https://arxiv.org/abs/1607.01759.
    Departs from it: n-grams of tokens rather than of words; buckets are not shared, which costs accuracy
    (docs/recipes.md); a sum divided by sqrt(n) rather than a mean, so that its size does not depend on n.

    Args:
        num_buckets: int in [1, 2**17]. M.
        output_dim: int. D.
        **kwargs: `name` of the Keras layer, which computes in float32.

    Attributes:
        table: float32 weight [M,D], E.
        keys: int32 weight [M], not trained: which token or pair each bucket keeps, see `_keys`. Until
            `adapt` is called, none keeps any, and y = 0.
        row_scales: float32 [M], the scales of an int8 table, see `convnlp.models.int8_tables`; None except on
            export.

    Raises:
        ValueError: if a size is out of its range.

    Example:
    >>> layer = HashedNgrams(num_buckets=64, output_dim=4)
    >>> layer.adapt(tf.ragged.constant([[7, 8, 1], [8, 1]]))
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

    def build(self, token_ids_shape=None, padding_mask_shape=None):
        self.table = self.add_weight(
            name="ngram_embeddings",
            shape=(self.num_buckets, self.output_dim),
            initializer=keras.initializers.RandomUniform(-1 / self.num_buckets, 1 / self.num_buckets),
        )
        self.keys = self.add_weight(
            name="ngram_keys",
            shape=(self.num_buckets,),
            initializer=keras.initializers.Constant(_EMPTY),
            dtype="int32",
            trainable=False,
        )

    @property
    def is_adapted(self):
        """Whether any bucket keeps an n-gram, a bool."""
        return bool(tf.reduce_any(tf.not_equal(self.keys, _EMPTY)))

    def adapt(self, token_ids):
        """Chooses what each bucket keeps: the token or pair, of all that fall into it, that most texts have.

        Of those that equally many have, the one with the smallest key is kept.

        Args:
            token_ids: int32 `tf.RaggedTensor` [N,(T)], texts without pads.
        """
        if not self.built:
            self.build()
        buckets, keys, counts = self._ngrams_of(token_ids)
        # The largest key is 2^31 - 1. A count comes before a key.
        best = tf.math.unsorted_segment_max(counts * 2**31 + (2**31 - 1 - keys), buckets, self.num_buckets)
        kept = 2**31 - 1 - tf.math.floormod(best, 2**31)
        self.keys.assign(tf.cast(tf.where(best > 0, kept, _EMPTY), tf.int32))

    def _ngrams_of(self, token_ids):
        """Returns the bucket, the key and the number of texts of each n-gram in texts, three int64 [G]."""
        ids, texts = token_ids.flat_values[tf.newaxis], token_ids.value_rowids()
        are_neighbours = tf.equal(texts[1:], texts[:-1])
        buckets, keys = (
            tf.cast(tf.concat([single[0], tf.boolean_mask(pair[0], are_neighbours)], axis=0), tf.int64)
            for single, pair in (self._buckets(ids), _keys(ids))
        )
        texts = tf.cast(tf.concat([texts, tf.boolean_mask(texts[1:], are_neighbours)], axis=0), tf.int64)
        found, places = tf.unique(buckets * 2**31 + keys, tf.int64)
        size = tf.size(found, tf.int64)
        once, _ = tf.unique(texts * size + places)
        counts = tf.math.unsorted_segment_sum(tf.ones_like(once), once % tf.maximum(size, 1), size)
        return found // 2**31, found % 2**31, counts

    def call(self, token_ids, padding_mask):
        """Maps token_ids int [B,T] and padding_mask bool [B,T], True = token, to float32 [B,D]."""
        buckets, is_counted = self.buckets(token_ids, padding_mask)
        counted = tf.cast(is_counted, tf.float32)
        rows = gather_rows(self.table, self.row_scales, buckets)  # [B,2T-1,D]
        count = tf.reduce_sum(counted, axis=1, keepdims=True)  # [B,1]
        total = tf.reduce_sum(rows * tf.expand_dims(counted, 2), axis=1)  # [B,D]
        return total * (SCALE * tf.math.rsqrt(tf.maximum(count, 1.0)))

    def buckets(self, token_ids, padding_mask):
        """Returns the buckets of the kept n-grams of each text, once each.

        Args:
            token_ids: int [B,T].
            padding_mask: bool [B,T].

        Returns:
            (int32 [B,2T-1], in descending order; bool [B,2T-1], False for the rest of the row).
        """
        token_ids = tf.cast(token_ids, tf.int32)
        is_present = tf.concat(
            [padding_mask, tf.logical_and(padding_mask[:, 1:], padding_mask[:, :-1])], axis=1
        )
        buckets, keys = (tf.concat(each, axis=1) for each in (self._buckets(token_ids), _keys(token_ids)))
        is_kept = tf.equal(tf.gather(tf.convert_to_tensor(self.keys), buckets), keys)
        buckets = tf.where(tf.logical_and(is_present, is_kept), buckets, -1)
        buckets = tf.sort(buckets, axis=1, direction="DESCENDING")
        is_repeated = tf.pad(tf.equal(buckets[:, 1:], buckets[:, :-1]), [[0, 0], [1, 0]])
        is_counted = tf.logical_and(buckets >= 0, tf.logical_not(is_repeated))
        return tf.maximum(buckets, 0), is_counted

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


def _keys(token_ids):
    """Returns what tells the n-grams of a bucket apart, int32: of tokens, [B,T], and of pairs, [B,T-1].

    A key is 2^16 a + b + 1 for a pair (a, b) and 2^16 a for the token a, with a modulo 2^15 and b + 1 modulo
    2^16. With a vocabulary of more than 2^15 - 1 tokens, two n-grams may have one key, but hardly ever in one
    bucket.
    """
    single = tf.math.floormod(token_ids, 2**15) * 2**16
    return single, single[:, :-1] + tf.math.floormod(token_ids[:, 1:] + 1, 2**16)
