"""Convolution with sums of damped cosines: taps for any distance, and a state of fixed size.

Axes in the products: b batch, n and m blocks, i and j positions in a block, h heads, s waves, c channels of a
head, q and p the real and imaginary parts.
"""

from typing import NamedTuple

import tensorflow as tf

from convnlp.kernels.gram import banded
from convnlp.kernels.shifts import (
    channels_by_head,
    length,
    merge_heads,
    pad_time,
    split_heads,
    visible_pairs,
)

BLOCK = 128  # positions that are convolved directly, by a Toeplitz matrix


class Waves(NamedTuple):
    """S damped cosines for each of H heads, float32 tensors [H,S]: a exp(-decay l) cos(frequency l)."""

    decay: tf.Tensor  # > 0
    frequency: tf.Tensor
    amplitude: tf.Tensor


def long_conv(x, past, future=None, segment_ids=None, prefix_mask=None):
    """A depthwise convolution over the whole row, whose taps are sums of damped cosines.

        y[i, c] = sum_j t[h(c), i - j] x[j, c]                                       h(c) = c // (D / H)
        t[h, l] = sum_s a[h, s] exp(-decay[h, s] |l|) cos(frequency[h, s] l)

    The waves are `past` for l >= 0 and `future` for l < 0. All arithmetic is in float32.

    A block of up to 128 positions is multiplied by a Toeplitz matrix. Longer rows are cut into such blocks. A
    block passes one complex number per wave and channel to the blocks after it: exp(-decay l + i frequency l)
    factors into parts that depend on either position and on the number of blocks between them, so that three
    products replace a matrix of all pairs. The other direction works likewise.

    Args:
        x: float tensor [B,T,D], zero at pads.
        past: `Waves` of H heads.
        future: `Waves` of H heads. Defaults to None: a position sees only itself and earlier ones.
        segment_ids: int32 tensor [B,T]; positions with equal ids see each other. Each segment is one run of
            equal ids. Defaults to one segment.
        prefix_mask: bool tensor [B,T], True = prefix. If given, `future` only applies to x in the prefix.

    Returns:
        Tensor [B,T,D] of x's dtype.

    Example:
    >>> halving = Waves(*(tf.constant([[value]]) for value in (0.6931472, 0.0, 1.0)))
    >>> y = long_conv(tf.constant([[[0.0], [8.0], [0.0], [0.0]]]), halving)
    >>> y[0, :, 0].numpy().round(3).tolist()
    [0.0, 8.0, 4.0, 2.0]
    """
    heads = split_heads(tf.cast(x, tf.float32), past.decay.shape[0])  # [B,T,H,C]
    time = length(x)
    block = _block_size(time)
    num_blocks = -(-time // block)
    one_block = isinstance(num_blocks, int) and num_blocks == 1

    def in_blocks(values):
        """[B,T,...] -> [B,N,I,...], padded with zeros at the end."""
        values = pad_time(tf.convert_to_tensor(values), 0, num_blocks * block - time)
        return tf.reshape(values, [length(values, 0), num_blocks, block, *values.shape[2:]])

    inputs = in_blocks(heads)  # [B,N,I,H,C]
    segments = None if segment_ids is None else in_blocks(segment_ids)  # [B,N,I]
    prefix = None if prefix_mask is None else in_blocks(prefix_mask)  # [B,N,I]
    y = _within(inputs, toeplitz(past, future, block), segments, prefix)
    if not one_block:
        y += _from_other_blocks(inputs, past, segments, backwards=False)
        if future is not None:
            if prefix is not None:
                inputs *= tf.reshape(tf.cast(prefix, tf.float32), [*_sizes(prefix), 1, 1])
            y += _from_other_blocks(inputs, future, segments, backwards=True)
    y = tf.reshape(y, [length(heads, 0), num_blocks * block, *heads.shape[2:]])
    return tf.cast(merge_heads(y[:, :time]), x.dtype)


def long_conv_step(x, past, state):
    """Computes the causal `long_conv` for the next I positions.

    Args:
        x: float tensor [B,I,D].
        past: `Waves` of H heads.
        state: float32 tensor [B,H,S,2,D/H]: for each wave, the sum of all earlier x[j] times exp(-decay l + i
            frequency l), with l the distance to the last position before the chunk; real and imaginary parts.

    Returns:
        Tensor [B,I,D] of x's dtype, and the state after the chunk.
    """
    inputs = split_heads(tf.cast(x, tf.float32), past.decay.shape[0])  # [B,I,H,C]
    count = length(inputs)
    y = tf.einsum("hij,bjhc->bihc", toeplitz(past, None, count), inputs)
    y += tf.einsum("hsqi,bhsqc->bihc", _reading(past, count), state)
    after = tf.einsum("hsqp,bhspc->bhsqc", _turned(past, count), state)
    after += tf.einsum("hsqj,bjhc->bhsqc", _writing(past, count), inputs)
    return tf.cast(merge_heads(y), x.dtype), after


def long_conv_state_shape(hidden_dim, num_heads, num_waves):
    """Returns the shape [H,S,2,D/H] of the state of a row."""
    heads, channels = channels_by_head(hidden_dim, num_heads)
    return [heads, num_waves, 2, channels]


def long_conv_cost(time, hidden_dim, num_heads, num_waves, causal):
    """Returns the multiply-adds of `long_conv` for a row of `time` positions without masks, an int."""
    sides = 1 if causal else 2
    block = _block_size(time)
    num_blocks = -(-time // block)
    products = num_blocks * block * block * hidden_dim + sides * num_heads * num_waves * block
    if num_blocks > 1:
        products += 4 * sides * num_waves * hidden_dim * (num_blocks * block + num_blocks**2)
    return products


def toeplitz(past, future, size):
    """Returns the taps as a matrix: float32 [H,I,I] for I = `size`; entry [h, i, j] is for distance i - j.

    Example:
    >>> halving = Waves(*(tf.constant([[value]]) for value in (0.6931472, 0.0, 1.0)))
    >>> toeplitz(halving, None, 3)[0].numpy().round(3).tolist()
    [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.25, 0.5, 1.0]]
    """
    distances = tf.range(size)
    behind = _taps(past, distances)
    ahead = tf.zeros_like(behind) if future is None else _taps(future, distances)
    # The distances I - 1 .. 0 and -1 .. 1 - I, from left to right.
    from_left = tf.concat([behind[:, ::-1], ahead[:, 1:]], axis=1)  # [H,2I-1]
    return banded(from_left, size)[:, :, size - 1 : 2 * size - 1]


def _block_size(time):
    """Returns 128, or the length of a shorter row; an int if `time` is one."""
    if isinstance(time, int):
        return max(1, min(time, BLOCK))
    return tf.clip_by_value(time, 1, BLOCK)


def _sizes(x):
    return [length(x, axis) for axis in range(x.shape.rank)]


def _powers(waves, distances):
    """Returns exp(-decay l + i frequency l) for L distances l: float32 [H,S,2,L]."""
    distances = tf.cast(distances, tf.float32)
    size = tf.exp(-tf.expand_dims(waves.decay, 2) * distances)
    angle = tf.expand_dims(waves.frequency, 2) * distances
    return tf.stack([size * tf.cos(angle), size * tf.sin(angle)], axis=2)


def _taps(waves, distances):
    """Returns the taps of L distances: float32 [H,L]."""
    return tf.einsum("hs,hsl->hl", waves.amplitude, _powers(waves, distances)[:, :, 0])


def _writing(waves, size):
    """Returns the factors with which a block's I positions are added to the state after it: [H,S,2,I]."""
    return _powers(waves, tf.range(size - 1, -1, -1))


def _reading(waves, size):
    """Returns the factors with which a block's I positions read the state before it: [H,S,2,I].

    The result of reading is a real part, hence the sign of the imaginary factor.
    """
    signs = tf.reshape(tf.constant([1.0, -1.0]), [2, 1])
    amplitude = tf.expand_dims(tf.expand_dims(waves.amplitude, 2), 3)
    return _powers(waves, tf.range(1, size + 1)) * signs * amplitude


def _turned(waves, distances):
    """Returns the complex numbers of `_powers` as 2 x 2 matrices: [H,S,2,2,...] for distances [...]."""
    shape = tf.shape(distances)
    real, imaginary = tf.unstack(_powers(waves, tf.reshape(distances, [-1])), axis=2)
    matrices = tf.stack([tf.stack([real, -imaginary], 2), tf.stack([imaginary, real], 2)], 2)
    return tf.reshape(matrices, tf.concat([[*real.shape[:2], 2, 2], shape], 0))


def _within(inputs, matrix, segments, prefix):
    """Convolves the positions of each block with each other: [B,N,I,H,C] -> [B,N,I,H,C]."""
    visible = visible_pairs(length(inputs, 2), segments, prefix)  # [B,N,I,I] or None
    if visible is None:
        return tf.einsum("hij,bnjhc->bnihc", matrix, inputs)
    matrices = matrix * tf.cast(tf.expand_dims(visible, 2), tf.float32)  # [B,N,H,I,I]
    return tf.einsum("bnhij,bnjhc->bnihc", matrices, inputs)


def _from_other_blocks(inputs, waves, segments, backwards):
    """Returns the contribution of the blocks before, or after: [B,N,I,H,C] -> [B,N,I,H,C]."""
    num_blocks, size = length(inputs), length(inputs, 2)
    writing, reading = _writing(waves, size), _reading(waves, size)
    blocks = tf.range(num_blocks)
    between = tf.expand_dims(blocks, 1) - blocks - 1  # [N,N], number of blocks between m and n
    if backwards:
        writing, reading = writing[..., ::-1], reading[..., ::-1]
        between = tf.transpose(between)
    turned = _turned(waves, tf.maximum(between, 0) * size)  # [H,S,2,2,N,N]
    reached = tf.cast(between >= 0, tf.float32)  # [N,N]
    if segments is None:
        states = tf.einsum("hsqj,bnjhc->bnhsqc", writing, inputs)
        states = tf.einsum("hsqpnm,bmhspc->bnhsqc", turned * reached, states)
        return tf.einsum("hsqi,bnhsqc->bnihc", reading, states)
    # A text that reaches from one block into another fills the near ends of both and all blocks between.
    first, last = segments[..., :1], segments[..., -1:]  # [B,N,1]
    entered, left = (last, first) if backwards else (first, last)
    leaves, enters = (
        tf.expand_dims(tf.expand_dims(tf.cast(segments == end, tf.float32), 3), 4) for end in (left, entered)
    )  # [B,N,I,1,1]
    reached *= tf.cast(entered == tf.transpose(left, [0, 2, 1]), tf.float32)  # [B,N,N]
    turned *= tf.reshape(reached, [length(reached, 0), 1, 1, 1, 1, num_blocks, num_blocks])
    states = tf.einsum("hsqj,bnjhc->bnhsqc", writing, inputs * leaves)
    states = tf.einsum("bhsqpnm,bmhspc->bnhsqc", turned, states)
    return tf.einsum("hsqi,bnhsqc->bnihc", reading, states) * enters
