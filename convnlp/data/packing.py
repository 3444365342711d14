"""Packs several examples into one row, separated by segment ids: fewer pads, same results."""

import typing

import numpy as np
import tensorflow as tf

WINDOW_BATCHES = 8  # batches of examples that are packed together


class Packed(typing.NamedTuple):
    """Rows of one column, int32 [B,L]: token ids; segment ids, from 1 for a row's examples and 0 for pads."""

    token_ids: typing.Any
    segment_ids: typing.Any


def pack(dataset, lengths, batch_size):
    """Packs examples into rows, first fit.

    An example has several columns (input, target, ...) and goes into the first row with room in all of them;
    its segment has the same number in all of them. Windows of `WINDOW_BATCHES` batches are packed one by one,
    so the rows depend only on the order of the examples. No example is cut or lost, except the last ones of a
    finite data set, which do not fill a batch.

    Args:
        dataset: tf.data.Dataset of dicts of int32 RaggedTensors [n, (tokens)]; no example is longer than a
            row.
        lengths: dict, column -> length of its rows.
        batch_size: int, rows in a batch.

    Returns:
        A tf.data.Dataset of dicts, column -> `Packed` with [batch_size, length].

    Example:
    >>> examples = tf.data.Dataset.from_tensors({"ids": tf.ragged.constant([[5, 6], [7, 8, 9], [3]])})
    >>> for rows in pack(examples, {"ids": 4}, batch_size=2):
    ...     print(rows["ids"].token_ids.numpy().tolist(), rows["ids"].segment_ids.numpy().tolist())
    [[5, 6, 3, 0], [7, 8, 9, 0]] [[1, 1, 2, 0], [1, 1, 1, 0]]
    """
    row_lengths = np.array(list(lengths.values()))

    @tf.autograph.experimental.do_not_convert
    def place(window):
        columns = [window[name].merge_dims(0, 1) for name in lengths]  # [w,n,(tokens)] -> [w*n,(tokens)]
        sizes = tf.stack([column.row_lengths() for column in columns], axis=1)  # [w*n,C]
        row, segment, offset = tf.numpy_function(
            lambda sizes: first_fit(sizes, row_lengths), [sizes], [tf.int64] * 3, stateful=False
        )
        row, segment = tf.ensure_shape(row, [None]), tf.ensure_shape(segment, [None])
        offset = tf.ensure_shape(offset, [None, len(lengths)])
        shapes = [tf.stack([tf.reduce_max(row) + 1, length]) for length in row_lengths]
        return {
            name: _scatter(column, row, segment, offset[:, i], shapes[i])
            for i, (name, column) in enumerate(zip(lengths, columns, strict=True))
        }

    rows = dataset.batch(WINDOW_BATCHES).map(place).unbatch().batch(batch_size, drop_remainder=True)
    return rows.map(lambda row: {name: _with_length(row[name], length) for name, length in lengths.items()})


def _with_length(packed, length):
    return Packed(*(tf.ensure_shape(part, [None, length]) for part in packed))


def _scatter(column, row, segment, offset, shape):
    """Writes each example of a column into its place in rows of `shape`."""
    example = column.value_rowids()
    inside = tf.ragged.range(column.row_lengths()).flat_values
    places = tf.stack([tf.gather(row, example), tf.gather(offset, example) + inside], axis=1)
    segments = tf.cast(tf.gather(segment, example), tf.int32)
    return Packed(tf.scatter_nd(places, column.flat_values, shape), tf.scatter_nd(places, segments, shape))


def first_fit(sizes, lengths):
    """Assigns each example to the first row with room for it.

    Args:
        sizes: int array [n,C], tokens of the examples in each of C columns.
        lengths: int array [C], length of the rows in each column.

    Returns:
        int64 arrays: row [n], segment [n] from 1, offset [n,C] of each example.

    Example:
    >>> row, segment, offset = first_fit(np.array([[2], [3], [1]]), np.array([4]))
    >>> row.tolist(), segment.tolist(), offset.tolist()
    ([0, 1, 0], [1, 1, 2], [[0], [0], [2]])
    """
    used = np.zeros([len(sizes), len(lengths)], "int64")  # by row
    members = np.zeros(len(sizes), "int64")
    row, segment, offset = np.zeros(len(sizes), "int64"), np.zeros(len(sizes), "int64"), np.zeros_like(used)
    for i, size in enumerate(sizes):
        row[i] = target = np.argmax((used + size <= lengths).all(axis=1))
        offset[i] = used[target]
        used[target] += size
        members[target] += 1
        segment[i] = members[target]
    return row, segment, offset
