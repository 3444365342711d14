"""Alignment of taps and positions, and the plain forms: sums of shifted copies.

Every kernel computes `y[i] = sum_j taps[j] * x[i + dilation_rate * (j - left)]` with zeros outside the sequence.
"""

import tensorflow as tf


def left_taps(kernel_size, causal):
    """How many taps lie left of the position they write to: all but one if causal, else `(K - 1) // 2`."""
    return kernel_size - 1 if causal else (kernel_size - 1) // 2


def length(x, axis=1):
    """The size of an axis: an int where it is known while tracing, else a scalar tensor."""
    return tf.shape(x)[axis] if x.shape[axis] is None else x.shape[axis]


def pad_time(x, left, right):
    """[B,T,...] -> [B,left+T+right,...] with zeros."""
    return tf.pad(x, [[0, 0], [left, right]] + [[0, 0]] * (x.shape.rank - 2))


def pad_for_taps(x, kernel_size, left, dilation_rate):
    """[B,T,...] -> [B,T+(K-1)*r,...]: a window of taps then starts at each of the T positions."""
    return pad_time(x, left * dilation_rate, (kernel_size - 1 - left) * dilation_rate)


def taps_by_channel(taps, hidden_dim):
    """[H,K] -> [K,D]. The one place that maps channels to heads: contiguous blocks, head = c // (D / H)."""
    return tf.repeat(tf.transpose(taps), hidden_dim // taps.shape[0], axis=1)


def split_heads(x, num_heads):
    """[B,T,D] -> [B,T,H,D/H], by the same map."""
    return tf.reshape(x, [length(x, 0), length(x), num_heads, x.shape[-1] // num_heads])  # [B,T,H,D/H]


def merge_heads(x):
    """[B,T,H,D/H] -> [B,T,D]."""
    return tf.reshape(x, [length(x, 0), length(x), x.shape[2] * x.shape[3]])  # [B,T,D]


def depthwise_conv_valid(window, taps, dilation_rate=1):
    """[B,(K-1)*r+C,D] and taps [H,K] -> [B,C,D]: the convolution without padding, summed in float32."""
    kernel_size = taps.shape[1]
    chunk = length(window) - (kernel_size - 1) * dilation_rate
    taps = tf.cast(taps_by_channel(taps, window.shape[-1]), tf.float32)  # [K,D]
    y = tf.add_n(
        [
            taps[j] * tf.cast(window[:, j * dilation_rate : j * dilation_rate + chunk], tf.float32)  # [B,C,D]
            for j in range(kernel_size)
        ]
    )
    return tf.cast(y, window.dtype)


def dynamic_conv_valid(window, taps, dilation_rate=1):
    """[B,(K-1)*r+C,D] and taps [B,C,H,K] -> [B,C,D]: each position has its own taps; summed in float32."""
    chunk = length(taps)
    taps32 = tf.cast(taps, tf.float32)
    window32 = split_heads(tf.cast(window, tf.float32), taps.shape[2])  # [B,(K-1)*r+C,H,D/H]
    y = tf.add_n(
        [
            taps32[..., j, tf.newaxis] * window32[:, j * dilation_rate : j * dilation_rate + chunk]  # [B,C,H,D/H]
            for j in range(taps.shape[-1])
        ]
    )
    return tf.cast(merge_heads(y), window.dtype)
