"""Fixed-shape caches of what incremental decoding has seen."""

import tensorflow as tf


def write(cache, chunk, index):
    """Writes a chunk into a cache; the shape of the cache does not depend on the index.

    Args:
        cache: tensor [B,L,...].
        chunk: tensor [B,C,...].
        index: int or int32 scalar tensor. The chunk goes to positions index .. index + C - 1.

    Returns:
        Tensor [B,L,...], the updated cache.

    Example:
    >>> write(tf.zeros([1, 4]), tf.constant([[1.0, 2.0]]), 1).numpy().tolist()
    [[0.0, 1.0, 2.0, 0.0]]
    """
    last = tf.shape(chunk)[1] - 1
    source = tf.range(tf.shape(cache)[1]) - index  # [L]
    moved = tf.gather(chunk, tf.clip_by_value(source, 0, last), axis=1)  # [B,L,...]
    inside = (source >= 0) & (source <= last)
    return tf.where(tf.reshape(inside, [1, -1] + [1] * (cache.shape.rank - 2)), moved, cache)
