"""Which positions an output may see, and where each text of a packed row begins."""

import functools
import operator

import tensorflow as tf

from convnlp.kernels import same_segment


def visible_keys(length, causal, padding_mask, segment_ids, prefix_mask=None):
    """Which keys each query of a row may see, for `kernels.masked_softmax`.

    Args:
        length: int or scalar tensor T.
        causal: bool. Whether keys to the right of their query are hidden.
        padding_mask: bool tensor [B,T], True = token, or None.
        segment_ids: int32 tensor [B,T], or None. Keys of other ids are hidden.
        prefix_mask: bool tensor [B,T], or None. Keys in the prefix are seen from everywhere, others only from
            behind.

    Returns:
        Bool tensor [B or 1,T or 1,T], or None where all are visible.
    """
    positions = tf.range(length)
    earlier = tf.expand_dims(positions <= tf.expand_dims(positions, 1), 0)  # [1,T,T]
    parts = []
    if causal:
        parts.append(earlier)
    if prefix_mask is not None:
        parts.append(earlier | tf.expand_dims(prefix_mask, 1))  # [B,T,T]
    if segment_ids is not None:
        parts.append(same_segment(segment_ids))  # [B,T,T]
    if padding_mask is not None:
        parts.append(tf.expand_dims(padding_mask, 1))  # [B,1,T]
    return functools.reduce(operator.and_, parts) if parts else None


def visible_in_cache(index, count, length):
    """As `visible_keys`, for a chunk of queries over a cache of keys.

    Args:
        index: int or int32 scalar tensor. Position of the first query.
        count: int or scalar tensor C, the queries.
        length: int or scalar tensor L, the keys in the cache.

    Returns:
        Bool tensor [1,C,L].
    """
    return tf.expand_dims(tf.range(length) <= tf.expand_dims(index + tf.range(count), 1), 0)


def positions_in_segments(segment_ids):
    """Int32 [B,T] -> int32 [B,T]: positions counted from the start of each text of a packed row.

    Example:
    >>> positions_in_segments(tf.constant([[1, 1, 1, 2, 2, 0]])).numpy().tolist()
    [[0, 1, 2, 0, 1, 0]]
    """
    index = tf.range(tf.shape(segment_ids)[1])
    earlier = same_segment(segment_ids) & (index < tf.expand_dims(index, 1))  # [B,T,T]
    return tf.reduce_sum(tf.cast(earlier, tf.int32), axis=2)
