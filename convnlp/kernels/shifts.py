"""Alignment of taps and positions, and the plain forms: sums of shifted copies.

Every convolution computes `y[i] = sum_j taps[j] * x[i + r * (j - left)]`, with zeros outside the sequence.

Axes are added by `tf.expand_dims`: TFLite has no built-in operation for `x[:, tf.newaxis]` of unknown length.
"""

import functools
import operator

import tensorflow as tf

from convnlp.kernels.implementations import current_implementation


def left_taps(kernel_size, causal):
    """Returns how many taps are left of the position they write to: K - 1 if causal, else (K - 1) // 2."""
    return kernel_size - 1 if causal else (kernel_size - 1) // 2


def length(x, axis=1):
    """Returns the size of an axis: an int if it is known while tracing, else a scalar tensor."""
    return tf.shape(x)[axis] if x.shape[axis] is None else x.shape[axis]


def pad_time(x, left, right):
    """Pads with zeros: [B,T,...] -> [B,left+T+right,...]."""
    return tf.pad(x, [[0, 0], [left, right]] + [[0, 0]] * (x.shape.rank - 2))


def pad_for_taps(x, kernel_size, left, dilation_rate):
    """Pads with zeros, so that T windows of K taps fit: [B,T,...] -> [B,T+(K-1)*r,...]."""
    return pad_time(x, left * dilation_rate, (kernel_size - 1 - left) * dilation_rate)


def taps_by_channel(taps, hidden_dim):
    """Repeats each head's taps for its channels: [H,K] -> [K,D]."""
    _, channels = channels_by_head(hidden_dim, taps.shape[0])
    return tf.repeat(tf.transpose(taps), channels, axis=1)


def channels_by_head(hidden_dim, num_heads):
    """Returns the axes [H,D/H] of D channels; channel c is in head c // (D / H), a block of neighbours."""
    return [num_heads, hidden_dim // num_heads]


def split_heads(x, num_heads):
    """[B,T,D] -> [B,T,H,D/H]."""
    return tf.reshape(x, [length(x, 0), length(x), *channels_by_head(x.shape[-1], num_heads)])  # [B,T,H,D/H]


def merge_heads(x):
    """[B,T,H,D/H] -> [B,T,D]."""
    return tf.reshape(x, [length(x, 0), length(x), x.shape[2] * x.shape[3]])  # [B,T,D]


def same_segment(segment_ids, met=None):
    """Returns whether positions have the same segment id, that is, are in the same text of a packed row.

    Args:
        segment_ids: int32 tensor [B,T].
        met: int32 tensor of segment ids to compare with: [B,S] if they are the same for all T positions, else
            [B,T,S]. Defaults to `segment_ids`.

    Returns:
        Bool tensor [B,T,S].

    Example:
    >>> same_segment(tf.constant([[1, 1, 2]]))[0].numpy().astype(int).tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """
    met = segment_ids if met is None else tf.convert_to_tensor(met)
    return tf.expand_dims(segment_ids, 2) == (tf.expand_dims(met, 1) if met.shape.rank == 2 else met)


def segment_numbers(segment_ids):
    """Returns which segment of a packed row each position is in, from 0: int32 [B,T] -> int32 [B,T].

    The pads at the end count as one more segment.

    Example:
    >>> segment_numbers(tf.constant([[4, 4, 4, 2, 2, 0]])).numpy().tolist()
    [[0, 0, 0, 1, 1, 2]]
    """
    starts = tf.cast(segment_ids[:, 1:] != segment_ids[:, :-1], tf.int32)
    return tf.cumsum(tf.pad(starts, [[0, 0], [1, 0]]), axis=1)


def visible_pairs(time, segment_ids=None, prefix_mask=None, causal=False):
    """Returns which keys each query may see among T neighbours.

    Args:
        time: int or scalar tensor T.
        segment_ids: int32 tensor [...,T], or None.
        prefix_mask: bool tensor [...,T], True = prefix, or None. If given, position i sees j <= i, and the
            prefix.
        causal: bool. Whether a position sees only itself and earlier ones. Defaults to `False`.

    Returns:
        Bool tensor [...,T,T] or [T,T], axes query and key, or None for all.
    """
    visible = None
    if causal or prefix_mask is not None:
        places = tf.range(time)
        visible = places <= tf.expand_dims(places, 1)  # [T,T]
    if prefix_mask is not None:
        visible |= tf.expand_dims(prefix_mask, -2)
    if segment_ids is not None:
        same = tf.expand_dims(segment_ids, -1) == tf.expand_dims(segment_ids, -2)
        visible = same if visible is None else visible & same
    return visible


def taps_in_segment(segment_ids, kernel_size, left, dilation_rate):
    """Returns whether tap j at position t meets a position of t's segment: int32 [B,T] -> bool [B,T,K]."""
    padded = pad_for_taps(segment_ids, kernel_size, left, dilation_rate)
    met = tf.stack(shifted(padded, kernel_size, dilation_rate), axis=-1)  # [B,T,K]
    return same_segment(segment_ids, met)


def seen_with_prefix(prefix_mask, segment_ids, kernel_size, left, dilation_rate):
    """Returns which taps a prefix language model keeps.

    Args:
        prefix_mask: bool tensor [B,T], True = prefix.
        segment_ids: int32 tensor [B,T] of positive ids, or None for one segment.
        kernel_size: int. Number K of taps.
        left: int. How many taps are left of the position they write to.
        dilation_rate: int. Distance between neighbouring taps.

    Returns:
        Bool tensor [B,T,K]: whether tap j at position t meets t itself, an earlier position, or the prefix of
        t's own text.

    Example:
    >>> prefix = tf.constant([[True, True, False, False]])
    >>> seen_with_prefix(prefix, None, 3, 1, 1)[0].numpy().astype(int).tolist()
    [[1, 1, 1], [1, 1, 0], [1, 1, 0], [1, 1, 0]]
    """
    texts = tf.ones(tf.shape(prefix_mask), tf.int32) if segment_ids is None else segment_ids
    prefixes = pad_for_taps(texts * tf.cast(prefix_mask, tf.int32), kernel_size, left, dilation_rate)
    met = tf.stack(shifted(prefixes, kernel_size, dilation_rate), axis=-1)  # [B,T,K]
    return (tf.range(kernel_size) <= left) | same_segment(texts, met)


def shifted(window, kernel_size, dilation_rate):
    """Returns what each of the K taps meets in a window [B,(K-1)*r+C,...]: a list of [B,C,...]."""
    reach = (kernel_size - 1) * dilation_rate
    # Bounds that count from the end are constants, so TFLite knows all shapes in advance (docs/edge.md).
    return [window[:, start : start - reach or None] for start in range(0, reach + 1, dilation_rate)]


def depthwise_conv_valid(window, taps, dilation_rate=1, kept=None):
    """Like `depthwise_conv`, without padding; sums in float32.

    Args:
        window: tensor [B,(K-1)*r+C,D].
        taps: tensor [H,K].
        dilation_rate: int r. Defaults to `1`.
        kept: bool tensor [B,C,K], which taps count at each position. Defaults to all.

    Returns:
        Tensor [B,C,D] of the window's dtype.
    """
    taps = taps_by_channel(tf.cast(taps, tf.float32), window.shape[-1])  # [K,D]
    met = shifted(tf.cast(window, tf.float32), taps.shape[0], dilation_rate)
    terms = [taps[j] * inputs for j, inputs in enumerate(met)]  # [B,C,D]
    if kept is not None:
        kept = tf.cast(kept, tf.float32)
        terms = [term * kept[:, :, j : j + 1] for j, term in enumerate(terms)]
    return tf.cast(tf.add_n(terms), window.dtype)


def dynamic_conv_valid(window, taps, dilation_rate=1):
    """Like `dynamic_conv`, without padding; sums in float32.

    Args:
        window: tensor [B,(K-1)*r+C,D].
        taps: tensor [B,C,H,K].
        dilation_rate: int r. Defaults to `1`.

    Returns:
        Tensor [B,C,D] of the window's dtype.
    """
    num_heads, kernel_size = taps.shape[2:]
    taps = tf.cast(taps, tf.float32)
    heads = split_heads(tf.cast(window, tf.float32), num_heads)  # [B,(K-1)*r+C,H,D/H]
    met = shifted(heads, kernel_size, dilation_rate)  # K x [B,C,H,D/H]
    if current_implementation() == "edge":
        total = _sum_by_tap(taps, met)
    else:
        total = merge_heads(tf.add_n([taps[..., j : j + 1] * inputs for j, inputs in enumerate(met)]))
    return tf.cast(total, window.dtype)


def _sum_by_tap(taps, met):
    """[B,C,H,K] and K x [B,C,H,D/H] -> [B,C,D], in operations that are fast in XNNPACK.

    XNNPACK has no ADD_N and stops at one. It also slices the last axis number by number; with the taps on the
    first axis, each slice is contiguous.
    """
    taps_first = tf.transpose(tf.expand_dims(taps, 3), [4, 0, 1, 2, 3])  # [K,B,C,H,1]
    terms = [taps_first[j : j + 1] * inputs for j, inputs in enumerate(met)]  # [1,B,C,H,D/H]
    total = functools.reduce(operator.add, terms)
    return tf.reshape(total, [length(taps, 0), length(taps), total.shape[3] * total.shape[4]])  # [B,C,D]
