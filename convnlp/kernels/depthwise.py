"""Depthwise convolution over time with H filters, each shared by D/H channels."""

import tensorflow as tf

from convnlp.kernels.gram import diagonals, fold_time, to_blocks
from convnlp.kernels.implementations import current_implementation
from convnlp.kernels.shifts import depthwise_conv_valid, left_taps, length, pad_for_taps, pad_time, taps_by_channel

def depthwise_conv(x, taps, dilation_rate=1, causal=False):
    """Convolves each channel with its head's taps: y[i, c] = sum_j taps[c // (D/H), j] x[i + r (j - p), c].

    p = K - 1 if causal, else (K - 1) // 2; positions outside the sequence count as zero.

    The fast form runs TensorFlow's depthwise op with time on the width axis. Its gradient by x is the same op with
    reversed taps and mirrored padding; its gradient by the taps is a blocked Gram matrix (gram.py), since the
    framework's filter gradient is up to a hundred times slower at K = 31. It must not be compiled by XLA on a CPU,
    where the depthwise op is as slow: use the plain form there.

    Args:
        x: tensor [B,T,D], float.
        taps: tensor [H,K] of the same type; H divides D.
        dilation_rate: int, >= 1. The distance r of neighbouring taps. Defaults to 1.
        causal: bool. Whether a position sees only itself and earlier ones. Defaults to `False`.

    Returns:
        Tensor [B,T,D] of x's type.

    Example:

    >>> x = tf.constant([[[1.0], [2.0], [3.0]]])
    >>> depthwise_conv(x, tf.constant([[10.0, 1.0]]), causal=True)[0, :, 0].numpy().tolist()
    [1.0, 12.0, 23.0]
    """
    x, taps = tf.convert_to_tensor(x), tf.convert_to_tensor(taps)
    left = left_taps(taps.shape[1], causal)
    form = current_implementation()
    if form == "fast":
        return _fast(x, taps, left, dilation_rate)
    if form == "inference":
        return _op(x, taps, left, dilation_rate)
    return depthwise_conv_valid(pad_for_taps(x, taps.shape[1], left, dilation_rate), taps, dilation_rate)


def _op(x, taps, left, dilation_rate):
    """TensorFlow's depthwise op with `left` taps of padding before the sequence and the others behind it."""
    taps = taps_by_channel(taps, x.shape[-1])  # [K,D]
    kernel_size = taps.shape[0]
    padding = [left, kernel_size - 1 - left]
    time, dilated = length(x), dilation_rate > 1
    if dilated:  # Time as [T/r,r] puts a tap's inputs into one column: a plain convolution along the rows.
        rows = -(-time // dilation_rate)
        x = pad_time(x, 0, rows * dilation_rate - time)
        image = tf.reshape(x, [length(x, 0), rows, dilation_rate, x.shape[-1]])  # [B,T/r,r,D]
        filters = taps[:, tf.newaxis, :, tf.newaxis]  # [K,1,D,1]
        padding = [[0, 0], padding, [0, 0], [0, 0]]
    else:
        image = x[:, tf.newaxis]  # [B,1,T,D]
        filters = taps[tf.newaxis, :, :, tf.newaxis]  # [1,K,D,1]
        padding = [[0, 0], [0, 0], padding, [0, 0]]
    y = tf.nn.depthwise_conv2d(image, filters, [1, 1, 1, 1], padding)
    if dilated:
        return tf.reshape(y, tf.shape(x))[:, :time]  # [B,T,D]
    return y[:, 0]  # [B,T,D]


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
    num_heads, kernel_size = taps.shape
    dy, x = fold_time(dy, dilation_rate), fold_time(x, dilation_rate)  # [B*r,T/r,D]
    block = max(16, kernel_size)
    dy, x = to_blocks(dy, x, kernel_size, left, block)  # [B,N,block,D], [B,N,block+K-1,D]
    gram = tf.matmul(_rows(dy, num_heads), _rows(x, num_heads), transpose_b=True)  # [H,block,block+K-1]
    return tf.cast(tf.reduce_sum(diagonals(tf.cast(gram, tf.float32), kernel_size), axis=1), taps.dtype)  # [H,K]


def _rows(blocks, num_heads):
    """[B,N,U,D] -> [H,U,B*N*D/H]."""
    batch, num_blocks, rows, dim = (length(blocks, axis) for axis in range(4))
    blocks = tf.reshape(blocks, [batch * num_blocks, rows, num_heads, dim // num_heads])  # [B*N,U,H,D/H]
    return tf.reshape(tf.transpose(blocks, [2, 1, 0, 3]), [num_heads, rows, -1])  # [H,U,B*N*D/H]
