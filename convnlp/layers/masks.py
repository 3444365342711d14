"""Which positions an output may see, and where each text of a packed row begins."""

import tensorflow as tf

# Added to the logits of keys that must not be seen. Finite, so that a row of pads stays free of NaN, and
# within float16 (to -65,504), as which TFLite may store a constant mask. The weight, exp(-30,000), is zero.
HIDDEN = -3e4


def hide(visible):
    """Bool -> float32 to add to logits: 0 where visible."""
    return tf.where(visible, 0.0, HIDDEN)


def attention_bias(length, causal, padding_mask, segment_ids, prefix_mask=None):
    """What to add to attention logits [B,H,T,T] so that every key which must not be seen gets weight 0.

    Args:
        length: int or scalar tensor T.
        causal: bool. Whether keys to the right of their query are hidden.
        padding_mask: bool tensor [B,T], True = token, or None.
        segment_ids: int32 tensor [B,T], or None. Keys of other ids are hidden.
        prefix_mask: bool tensor [B,T], or None. Keys in the prefix are seen from everywhere, others only from
            behind.

    Returns:
        Float32 tensor that broadcasts to [B,1,T,T].
    """
    bias = tf.zeros([1, 1, 1, 1])
    positions = tf.range(length)
    earlier = positions <= tf.expand_dims(positions, 1)  # [T,T]
    if causal:
        bias += hide(earlier)  # [1,1,T,T]
    if prefix_mask is not None:
        bias += tf.expand_dims(hide(earlier | tf.expand_dims(prefix_mask, 1)), 1)  # [B,1,T,T]
    if segment_ids is not None:
        bias += tf.expand_dims(hide(same_segment(segment_ids)), 1)  # [B,1,T,T]
    if padding_mask is not None:
        bias += tf.expand_dims(tf.expand_dims(hide(padding_mask), 1), 1)  # [B,1,1,T]
    return bias


def step_bias(index, count, length):
    """As `attention_bias`, for a chunk of queries over a cache of keys.

    Args:
        index: int or int32 scalar tensor. Position of the first query.
        count: int or scalar tensor C, the queries.
        length: int or scalar tensor L, the keys in the cache.

    Returns:
        Float32 tensor [C,L].
    """
    return hide(tf.range(length) <= tf.expand_dims(index + tf.range(count), 1))


def same_segment(segment_ids):
    """Int32 [B,T] -> bool [B,T,T]: whether two positions belong to the same text."""
    return tf.expand_dims(segment_ids, 1) == tf.expand_dims(segment_ids, 2)


def positions_in_segments(segment_ids):
    """Int32 [B,T] -> int32 [B,T]: positions counted from the start of each text of a packed row.

    Example:
    >>> positions_in_segments(tf.constant([[1, 1, 1, 2, 2, 0]])).numpy().tolist()
    [[0, 1, 2, 0, 1, 0]]
    """
    index = tf.range(tf.shape(segment_ids)[1])
    earlier = same_segment(segment_ids) & (index < tf.expand_dims(index, 1))  # [B,T,T]
    return tf.reduce_sum(tf.cast(earlier, tf.int32), axis=2)
