"""Blocked Gram matrices: the gradient of taps as matrix products.

The gradient of tap j is the correlation of the output gradient dy with the input x at one offset. Time is cut
into blocks of T positions. A block of dy needs T + K - 1 positions of x (its own and a halo), and the
products of all pairs, `G[u, v] = sum dy[u] * x[v]`, are one matrix product. The gradients of tap j are the
diagonal `G[u, u + j]`. Most of G is discarded, but matrix products are so much faster than anything else on a
CPU that this still beats TensorFlow's filter gradient by an order of magnitude.
"""

import tensorflow as tf

from convnlp.kernels.implementations import current_implementation
from convnlp.kernels.shifts import length, pad_time


def block_size(kernel_size):
    """Returns the length of a block; measured to be the best or second best for K from 7 to 31."""
    return max(32, kernel_size)


def to_blocks(dy, x, kernel_size, left):
    """Cuts dy, x [B,T,D] into blocks of dy [B,N,block,D], and of x with a halo [B,N,block+K-1,D]."""
    time, halo = length(dy), kernel_size - 1
    block = block_size(kernel_size)
    num_blocks = -(-time // block)
    rest = num_blocks * block - time
    dy = tf.reshape(pad_time(dy, 0, rest), [length(dy, 0), num_blocks, block, dy.shape[-1]])  # [B,N,block,D]
    if current_implementation() == "edge":  # where XNNPACK loses the shapes of slices that are joined
        x = pad_time(x, left, halo - left + rest)
        starts = tf.expand_dims(tf.range(num_blocks), 1) * block  # [N,1]
        return dy, tf.gather(x, starts + tf.range(block + halo), axis=1)  # [B,N,block+K-1,D]
    # One block more, for the halo of the last. A gather would be a slow loop in XLA, in its gradient too.
    x = pad_time(x, left, rest + block - left)
    x = tf.reshape(x, [length(x, 0), num_blocks + 1, block, x.shape[-1]])  # [B,N+1,block,D]
    return dy, tf.concat([x[:, :-1], x[:, 1:, :halo]], axis=2)  # [B,N,block+K-1,D]


def merge_blocks(x):
    """[B,N,U,D] -> [B*N,U,D]."""
    return tf.reshape(x, [-1, *x.shape[2:]])


def diagonals(gram, kernel_size):
    """Returns the diagonals [...,T,K] of gram [...,T,T+K-1]: entry [u, j] is gram[u, u + j].

    The skew trick: if the flattened matrix is read with rows one entry longer, row u starts u entries later.
    """
    rows, columns = gram.shape[-2], gram.shape[-1]
    lead = tf.shape(gram)[:-2]
    flat = tf.reshape(gram, tf.concat([lead, [rows * columns]], 0))  # [...,T*(T+K-1)]
    flat = tf.pad(flat, [[0, 0]] * (gram.shape.rank - 2) + [[0, rows]])
    return tf.reshape(flat, tf.concat([lead, [rows, columns + 1]], 0))[..., :kernel_size]  # [...,T,K]


def banded(values, rows):
    """Returns the matrix [...,S,S+K-1] of S `rows` with values[..., j] at [u, u + j], and zeros elsewhere.

    The reverse of `diagonals`, by the same trick: repeated rows, padded to be one entry longer than those of
    the matrix, move by one entry from row to row. Its gradient is a sum, that of a gather would be a scatter.

    Args:
        values: tensor [...,K]; only K may be unknown while tracing.
        rows: int or scalar tensor S.

    Example:
    >>> banded(tf.constant([1, 2]), 3).numpy().tolist()
    [[1, 2, 0, 0], [0, 1, 2, 0], [0, 0, 1, 2]]
    """
    lead, columns = values.shape[:-1], rows + length(values, -1) - 1
    values = tf.pad(values, [[0, 0]] * len(lead) + [[0, rows]])  # [...,S+K]
    flat = tf.tile(values, [1] * len(lead) + [rows])[..., : rows * columns]
    return tf.reshape(flat, [*lead, rows, columns])


def fold_time(x, dilation_rate):
    """[B,T,D] -> [B*r,T/r,D], padded with zeros: positions r apart become neighbours."""
    if dilation_rate == 1:
        return x
    x = pad_time(x, 0, -length(x) % dilation_rate)
    shape = [length(x, 0), length(x) // dilation_rate, dilation_rate, x.shape[-1]]
    x = tf.transpose(tf.reshape(x, shape), [0, 2, 1, 3])  # [B,r,T/r,D]
    return tf.reshape(x, [shape[0] * dilation_rate, shape[1], shape[3]])  # [B*r,T/r,D]


def unfold_time(x, dilation_rate, time):
    """[B*r,T/r,...] -> [B,T,...]: undoes `fold_time` for a sequence of `time` positions."""
    if dilation_rate == 1:
        return x
    tail = x.shape[2:]
    shape = [length(x, 0) // dilation_rate, dilation_rate, length(x), *tail]
    x = tf.transpose(tf.reshape(x, shape), [0, 2, 1, *range(3, 3 + len(tail))])  # [B,T/r,r,...]
    return tf.reshape(x, [shape[0], shape[1] * shape[2], *tail])[:, :time]  # [B,T,...]
