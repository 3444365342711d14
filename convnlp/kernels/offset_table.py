"""A number for each pair of positions, looked up by their offset: biases of attention."""

import tensorflow as tf

from convnlp.kernels.compiled import island
from convnlp.kernels.implementations import current_implementation
from convnlp.kernels.shifts import length

_LARGE = 512  # offsets; below, a compiled loop gains less than the time it takes to compile


def look_up_offsets(table, slot_of, query_positions, key_positions):
    """Looks up a number for each query and key.

        y[h,q,k] = table[h, slot_of(key_positions[k] - query_positions[q])]

    The fast form looks up each of the Q+K-1 offsets once and spreads them over the diagonals, which takes a
    twentieth of the time of looking up all pairs; with its gradient, the sums of the diagonals, a quarter
    (for 2,048 queries and keys, on two cores).

    Args:
        table: float tensor [H,N].
        slot_of: function that maps offsets, an int32 tensor, to an int32 tensor of the same shape with values
            in [0, N).
        query_positions: int32 tensor [Q], Q at least 1, equally spaced.
        key_positions: int32 tensor [K], K at least 1, with the same space.

    Returns:
        Tensor [H,Q,K].

    Example:
    >>> table = tf.constant([[0.0, 0.1, 0.2, 0.3, 0.4]])
    >>> print(look_up_offsets(table, lambda offset: offset + 2, tf.range(2), tf.range(3))[0].numpy())
    [[0.2 0.3 0.4]
     [0.1 0.2 0.3]]
    """
    if current_implementation() != "fast":
        offsets = key_positions - tf.expand_dims(query_positions, 1)  # [Q,K]
        return tf.gather(table, slot_of(offsets), axis=1)  # [H,Q,K]
    below = key_positions[0] - tf.reverse(query_positions, [0])  # [Q], up to the diagonal of the first query
    offsets = tf.concat([below, key_positions[1:] - query_positions[0]], axis=0)  # [Q+K-1]
    y = _diagonals(tf.gather(table, slot_of(offsets), axis=1), query_positions)
    return tf.ensure_shape(y, [table.shape[0], query_positions.shape[0], key_positions.shape[0]])


def _diagonals(values, rows):
    """[H,Q+K-1] and any tensor [Q] -> [H,Q,K]: y[h,q,k] = values[h,Q-1-q+k]."""
    is_small = values.shape[1] is not None and values.shape[1] < _LARGE

    @tf.custom_gradient
    def diagonals(values):
        def grad(dy):
            return tf.ensure_shape(_sums(dy), values.shape)

        return _spread(values, rows) if is_small else island(_spread, values, rows, first_known_axis=0), grad

    return diagonals(values)


def _spread(values, rows):
    # The skew trick: copies of a row, read as rows that are one entry shorter, start one entry earlier each.
    heads, num_rows, count = values.shape[0], length(rows, 0), length(values)  # count = Q+K-1
    copies = tf.tile(tf.expand_dims(tf.pad(values, [[0, 0], [0, 1]]), 1), [1, num_rows, 1])  # [H,Q,Q+K]
    flat = tf.reshape(copies, [heads, num_rows * (count + 1)])
    skewed = tf.reshape(flat[:, num_rows - 1 : num_rows - 1 + num_rows * count], [heads, num_rows, count])
    return skewed[:, :, : count - num_rows + 1]


def _sums(dy):
    """The gradient of `_spread`: [H,Q,K] -> [H,Q+K-1]; head by head, because padding doubles the size."""
    return tf.map_fn(_sums_of_head, dy, parallel_iterations=1)


def _sums_of_head(dy):
    """The same trick backwards: [Q,K] -> [Q+K-1]."""
    num_rows, count = length(dy, 0), length(dy, 0) + length(dy) - 1
    rows = tf.pad(dy, [[0, 1], [num_rows - 1, 0]])  # [Q+1,Q+K-1]
    flat = tf.reshape(rows, [(num_rows + 1) * count])[: num_rows * (count + 1)]
    return tf.reduce_sum(tf.reshape(flat, [num_rows, count + 1]), axis=0)[:count]
