"""Depthwise convolution over time with H filters, each shared by D/H channels."""

import tensorflow as tf

from convnlp.kernels.implementations import current_implementation
from convnlp.kernels.shifts import (
    channels_by_head,
    depthwise_conv_valid,
    left_taps,
    length,
    pad_for_taps,
    pad_time,
    segment_numbers,
    taps_by_channel,
    taps_in_segment,
)


def depthwise_conv(x, taps, dilation_rate=1, causal=False, segment_ids=None):
    """Convolves each channel with the taps of its head.

        y[i, c] = sum_j taps[c // (D/H), j] x[i + r (j - p), c]

    p = K - 1 if causal, else (K - 1) // 2; positions outside the sequence count as zero.

    The fast form uses TensorFlow's depthwise op three times: forward, with time on the width axis; for the
    gradient with respect to x, with reversed taps and mirrored padding; and for the gradient with respect to
    the taps, with dy as a filter on x (`_taps_gradient`), because TensorFlow's own filter gradient is up to a
    hundred times slower at K = 31. Do not compile it with XLA on a CPU, where the depthwise op is just as
    slow: use the plain form there. Segments are moved apart by the reach of the taps, so that one convolution
    serves them all.

    Args:
        x: tensor [B,T,D], float, zero at pads. In the form "edge" also [B,1,T,D], without dilation and
            segments.
        taps: tensor [H,K] of the same dtype; H divides D.
        dilation_rate: int >= 1. Distance r between neighbouring taps. Defaults to `1`.
        causal: bool. Whether a position sees only itself and earlier ones. Defaults to `False`.
        segment_ids: int32 tensor [B,T]. Each segment is one run of equal ids; positions of other segments
            count as zero. Defaults to one segment.

    Returns:
        Tensor of x's shape and dtype.

    Example:
    >>> x = tf.constant([[[1.0], [2.0], [3.0]]])
    >>> depthwise_conv(x, tf.constant([[10.0, 1.0]]), causal=True)[0, :, 0].numpy().tolist()
    [1.0, 12.0, 23.0]
    """
    x, taps = tf.convert_to_tensor(x), tf.convert_to_tensor(taps)
    left = left_taps(taps.shape[1], causal)
    form = current_implementation()
    if form == "plain":
        return _plain(x, taps, left, dilation_rate, segment_ids)
    conv = _fast if form == "fast" else _op
    if segment_ids is None:
        return conv(x, taps, left, dilation_rate)
    gap = max(left, taps.shape[1] - 1 - left) * dilation_rate
    places, spread_length = _spread(segment_ids, gap)
    batch, time, dim = (length(x, axis) for axis in range(3))
    spread = tf.scatter_nd(places, tf.reshape(x, [-1, dim]), [batch * spread_length, dim])  # [B*S,D]
    y = conv(tf.reshape(spread, [batch, spread_length, dim]), taps, left, dilation_rate)  # [B,S,D]
    y = tf.gather_nd(tf.reshape(y, [-1, dim]), places)  # [B*T,D]
    return tf.reshape(y, [batch, time, dim])


def _spread(segment_ids, gap):
    """Computes where to move the segments of a row so that they are at least `gap` positions apart.

    Returns:
        int32 tensor [B*T,1], the new place of each position in the flattened rows, and their new length S.
    """
    batch, time, number = length(segment_ids, 0), length(segment_ids), segment_numbers(segment_ids)
    spread_length = time + gap * tf.maximum(tf.reduce_max(number), 0)  # of no rows, the maximum is -2^31
    places = tf.range(time) + gap * number + spread_length * tf.expand_dims(tf.range(batch), 1)  # [B,T]
    return tf.reshape(places, [-1, 1]), spread_length


def _plain(x, taps, left, dilation_rate, segment_ids=None):
    kernel_size = taps.shape[1]
    kept = None
    if segment_ids is not None:
        kept = taps_in_segment(segment_ids, kernel_size, left, dilation_rate)  # [B,T,K]
    window = pad_for_taps(x, kernel_size, left, dilation_rate)
    return depthwise_conv_valid(window, taps, dilation_rate, kept)


def _op(x, taps, left, dilation_rate):
    """Runs TensorFlow's depthwise op, padded by `left` taps before the sequence and the others after it."""
    taps = taps_by_channel(taps, x.shape[-1])  # [K,D]
    kernel_size = taps.shape[0]
    padding = [left, kernel_size - 1 - left]
    time, dilated, is_image = length(x), dilation_rate > 1, x.shape.rank == 4
    if dilated:  # Time as [T/r,r] puts a tap's inputs into one column: a plain convolution along the rows.
        rows = -(-time // dilation_rate)
        x = pad_time(x, 0, rows * dilation_rate - time)
        image = tf.reshape(x, [length(x, 0), rows, dilation_rate, x.shape[-1]])  # [B,T/r,r,D]
        filters = tf.reshape(taps, [kernel_size, 1, -1, 1])  # [K,1,D,1]
        padding = [[0, 0], padding, [0, 0], [0, 0]]
    else:
        image = x if is_image else tf.expand_dims(x, 1)  # [B,1,T,D]
        filters = tf.reshape(taps, [1, kernel_size, -1, 1])  # [1,K,D,1]
        padding = [[0, 0], [0, 0], padding, [0, 0]]
    if current_implementation() == "edge" and left == (kernel_size - 1) // 2:
        padding = "SAME"  # the same zeros, without a separate operation in TFLite
    y = tf.nn.depthwise_conv2d(image, filters, [1, 1, 1, 1], padding)
    if dilated:
        return tf.reshape(y, tf.shape(x))[:, :time]  # [B,T,D]
    return y if is_image else tf.squeeze(y, 1)  # [B,T,D]


def _fast(x, taps, left, dilation_rate):
    @tf.custom_gradient
    def conv(x, taps):
        def grad(dy):
            mirrored = taps.shape[1] - 1 - left
            dx = _op(dy, tf.reverse(taps, [1]), mirrored, dilation_rate)
            return dx, _taps_gradient(dy, x, taps, left, dilation_rate)

        return _op(x, taps, left, dilation_rate), grad

    return conv(x, taps)


def _taps_gradient(dy, x, taps, left, dilation_rate):
    """Returns the gradient with respect to the taps, a depthwise convolution of x with dy as the filter.

        dtaps[c, j] = sum_{b,i} dy[b, i, c] x[b, i + r (j - left), c]

    The rows of the batch form the height of one image. The filter dy is as high and as long as the batch;
    thanks to the padding, it fits at K places, r apart. This needs no copies, and no matrix of which only the
    diagonals are used: compared with a blocked Gram matrix (gram.py), it takes a third of the time at K = 7
    and two thirds at K = 31 for H = 8, a seventh and a third for H = D = 512 (float32, one thread with
    AVX-512).
    """
    num_heads, kernel_size = taps.shape
    padding = [left * dilation_rate, (kernel_size - 1 - left) * dilation_rate]

    def correlation():
        return tf.nn.depthwise_conv2d(
            tf.expand_dims(x, 0),  # [1,B,T,D]
            tf.expand_dims(dy, 3),  # [B,T,D,1]
            [1, dilation_rate, dilation_rate, 1],
            [[0, 0], [0, 0], padding, [0, 0]],
        )  # [1,1,K,D]

    if x.shape[0]:
        by_channel = correlation()
    else:  # The op rejects an empty filter.
        zeros = tf.zeros([1, 1, kernel_size, x.shape[2]], x.dtype)
        by_channel = tf.cond(tf.size(x) > 0, correlation, lambda: zeros)
    shape = [kernel_size, *channels_by_head(x.shape[2], num_heads)]
    by_channel = tf.reshape(tf.cast(by_channel, tf.float32), shape)  # [K,H,D/H]
    return tf.cast(tf.transpose(tf.reduce_sum(by_channel, axis=2)), taps.dtype)  # [H,K]
