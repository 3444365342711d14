"""T5's relative position bias: attention learns how much each distance matters."""

import math

import keras
import tensorflow as tf

from convnlp.kernels import current_implementation, look_up_offsets

INITIALIZERS = ("normal", "alibi")


def relative_position_bucket(offset, bidirectional, num_buckets=32, max_distance=128):
    """Returns the bucket of an offset: exact if it is small, logarithmic up to `max_distance`, then the last.

    Args:
        offset: int32 tensor, the key's position minus the query's.
        bidirectional: bool. Whether half of the buckets are for keys to the right; if not, keys to the right
            share bucket 0 with the query itself (a causal mask hides them).
        num_buckets: int. Defaults to `32`.
        max_distance: int. Defaults to `128`.

    Returns:
        int32 tensor of offset's shape, in [0, num_buckets).

    Example:
    >>> relative_position_bucket(tf.constant([-200, -9, -1, 0, 1, 200]), bidirectional=True).numpy().tolist()
    [15, 8, 1, 0, 17, 31]
    """
    if bidirectional:
        num_buckets //= 2
        side = tf.where(offset > 0, num_buckets, 0)
        distance = tf.abs(offset)
    else:
        side = 0
        distance = tf.maximum(-offset, 0)
    exact = num_buckets // 2
    # log(0) never reaches the result: small distances take the other branch.
    ratio = tf.math.log(tf.cast(tf.maximum(distance, 1), tf.float32) / exact) / math.log(max_distance / exact)
    coarse = tf.minimum(exact + tf.cast(ratio * (num_buckets - exact), tf.int32), num_buckets - 1)
    return side + tf.where(distance < exact, distance, coarse)


def alibi_table(num_heads, num_buckets, max_distance, bidirectional):
    """Returns ALiBi's biases as a table of heads and buckets: minus the head's slope times the distance.

    The slopes are 2^(-8 h / H) for h = 1 ... H; a bucket of several distances gets the bias of the smallest.

    Source: Press et al., 2022, "Train Short, Test Long", section 3, https://arxiv.org/abs/2108.12409.
    Departs from it: the biases are initial values that are trained, not constants; in both directions if
    `bidirectional`.

    Args:
        num_heads: int. H.
        num_buckets: int, see `relative_position_bucket`.
        max_distance: int, likewise.
        bidirectional: bool, likewise.

    Returns:
        float32 tensor [num_heads, num_buckets].

    Example:
    >>> print(alibi_table(num_heads=2, num_buckets=8, max_distance=16, bidirectional=False)[0].numpy())
    [-0.     -0.0625 -0.125  -0.1875 -0.25   -0.375  -0.5    -0.75  ]
    """
    offsets = tf.range(-max_distance, (max_distance if bidirectional else 0) + 1)
    buckets = relative_position_bucket(offsets, bidirectional, num_buckets, max_distance)
    smallest = tf.math.unsorted_segment_min(tf.abs(offsets), buckets, num_buckets)
    distances = tf.where(smallest <= max_distance, smallest, 0)  # the first bucket to the right is empty
    slopes = tf.constant([2.0 ** (-8.0 * (head + 1) / num_heads) for head in range(num_heads)])
    return -slopes[:, tf.newaxis] * tf.cast(distances, tf.float32)


@keras.saving.register_keras_serializable(package="convnlp")
class RelativePositionBias(keras.layers.Layer):
    """A learned number per head and bucket of offsets, which is added to the attention logits.

    Source: Raffel et al., 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
    Transformer", section 2.1, https://arxiv.org/abs/1910.10683.
    Departs from it: every layer has its own table, while T5 shares one in a stack; the table may start as
    `alibi_table`.

    Args:
        num_heads: int. H.
        bidirectional: bool. False if keys are never to the right of the query.
        initializer: "normal": the table starts near 0, so that attention does not depend on distance at
            first; or "alibi": attention starts local. Defaults to `"normal"`.
        num_buckets: int. Defaults to `32`.
        max_distance: int. All distances from here on share the last bucket. Defaults to `128`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Raises:
        ValueError: if `initializer` is unknown.

    Example:
    >>> bias = RelativePositionBias(num_heads=2, bidirectional=True)
    >>> bias(tf.range(3), tf.range(5)).shape
    TensorShape([2, 3, 5])
    """

    def __init__(
        self, num_heads, bidirectional, initializer="normal", num_buckets=32, max_distance=128, **kwargs
    ):
        super().__init__(**kwargs)
        if initializer not in INITIALIZERS:
            raise ValueError(
                f"`bias_initializer` must be one of {', '.join(INITIALIZERS)}. "
                f"Received: bias_initializer={initializer!r}"
            )
        self.initializer = initializer
        self.num_heads = num_heads
        self.bidirectional = bidirectional
        self.num_buckets = num_buckets
        self.max_distance = max_distance

    def build(self, *_):
        self.table = self.add_weight(
            name="table",
            shape=(self.num_heads, self.num_buckets),
            initializer=self._initial,
            autocast=False,  # Attention logits are float32.
        )

    def _initial(self, shape, dtype):
        if self.initializer == "normal":
            return keras.initializers.RandomNormal(stddev=0.02)(shape, dtype)
        return tf.cast(alibi_table(*shape, self.max_distance, self.bidirectional), dtype)

    def call(self, query_positions, key_positions):
        """Returns the bias float32 [H,Q,K] for int32 positions [Q] and [K] as in `look_up_offsets`."""
        if current_implementation() == "plain":
            # A TPU looks up the numbers one by one, and adds up their gradients one by one; a product with
            # zeros and ones takes a thirteenth of the cycles (docs/tpu.md). It rounds to bfloat16, like the
            # products that the bias is added to.
            buckets = self._bucket(key_positions - tf.expand_dims(query_positions, 1))  # [Q,K]
            one_hot = tf.one_hot(buckets, self.num_buckets, dtype=self.table.dtype)  # [Q,K,N]
            return tf.einsum("hn,qkn->hqk", self.table, one_hot)  # [H,Q,K]
        return look_up_offsets(tf.convert_to_tensor(self.table), self._bucket, query_positions, key_positions)

    def _bucket(self, offset):
        return relative_position_bucket(offset, self.bidirectional, self.num_buckets, self.max_distance)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "bidirectional": self.bidirectional,
            "initializer": self.initializer,
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
        }
