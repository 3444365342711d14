"""Convolution over time whose taps differ at every position."""

import functools

import tensorflow as tf

from convnlp.kernels.gram import diagonals, fold_time, to_blocks, unfold_time
from convnlp.kernels.implementations import current_implementation
from convnlp.kernels.shifts import (
    dynamic_conv_valid,
    left_taps,
    length,
    merge_heads,
    pad_for_taps,
    same_segment,
    shifted,
    split_heads,
)


def dynamic_conv(x, taps, dilation_rate=1, causal=False, segment_ids=None):
    """Weighs each position's neighbours by its own taps.

        y[i, c] = sum_j taps[i, c // (D/H), j] x[i + r (j - p), c]

    p = K - 1 if causal, else (K - 1) // 2; positions outside the sequence count as zero.

    The fast form is one compiled loop over all taps where plain TensorFlow would run K passes over memory
    (graph mode) or keep K shifted copies for the gradient. The gradient by x is another such loop, which
    gathers from each neighbour what it took. The gradient by the taps is a blocked Gram matrix (gram.py).
    The loops get the taps in float32: XLA would convert a bfloat16 tap anew for each channel that it serves,
    which takes three times as long at K = 7.

    Args:
        x: tensor [B,T,D], float.
        taps: tensor [B,T,H,K] of the same type; H divides D.
        dilation_rate: int, >= 1. The distance r of neighbouring taps. Defaults to 1.
        causal: bool. Whether a position sees only itself and earlier ones. Defaults to `False`.
        segment_ids: int32 tensor [B,T]. Each segment is one run of equal ids; positions of others count as
            zero. Defaults to one segment.

    Returns:
        Tensor [B,T,D] of x's type.

    Example:
    >>> x = tf.constant([[[1.0], [2.0], [3.0]]])
    >>> taps = tf.constant([[[[0.0, 1.0]], [[1.0, 0.0]], [[1.0, 1.0]]]])
    >>> dynamic_conv(x, taps, causal=True)[0, :, 0].numpy().tolist()
    [1.0, 1.0, 5.0]
    """
    x, taps = tf.convert_to_tensor(x), tf.convert_to_tensor(taps)
    left = left_taps(taps.shape[-1], causal)
    if segment_ids is not None:
        kept = same_segment(segment_ids, taps.shape[-1], left, dilation_rate)  # [B,T,K]
        taps *= tf.expand_dims(tf.cast(kept, taps.dtype), 2)  # [B,T,H,K]
    if current_implementation() == "fast":
        return _fast(x, taps, left, dilation_rate)
    return _forward(x, taps, left, dilation_rate)


def _forward(x, taps, left, dilation_rate):
    return dynamic_conv_valid(pad_for_taps(x, taps.shape[-1], left, dilation_rate), taps, dilation_rate)


def _input_gradient(dy, taps, left, dilation_rate):
    """dx[s] = sum_j taps[s - r (j - left), j] dy[s - r (j - left)]: each product, shifted back."""
    num_heads, kernel_size = taps.shape[2:]
    right = kernel_size - 1 - left
    heads = split_heads(tf.cast(dy, tf.float32), num_heads)  # [B,T,H,D/H]
    heads, taps = (
        shifted(pad_for_taps(value, kernel_size, right, dilation_rate), kernel_size, dilation_rate)
        for value in (heads, tf.cast(taps, tf.float32))
    )
    # The output that tap j wrote for the input at s is K - 1 - j windows to the right.
    terms = [taps[-1 - j][..., j : j + 1] * heads[-1 - j] for j in range(kernel_size)]  # [B,T,H,D/H]
    return tf.cast(merge_heads(tf.add_n(terms)), dy.dtype)


@functools.cache
def _compiled(function, dtype, hidden_dim, num_heads, kernel_size, left, dilation_rate):
    """`function` as one XLA loop; traced once for all lengths, compiled for each."""
    signature = [
        tf.TensorSpec([None, None, hidden_dim], dtype),
        tf.TensorSpec([None, None, num_heads, kernel_size], tf.float32),
    ]
    return tf.function(
        lambda x, taps: function(x, taps, left, dilation_rate), signature, autograph=False, jit_compile=True
    )


def _fast(x, taps, left, dilation_rate):
    settings = (x.dtype, x.shape[-1], *taps.shape[2:], left, dilation_rate)

    @tf.custom_gradient
    def conv(x, taps):
        def grad(dy):
            dx = _compiled(_input_gradient, *settings)(dy, tf.cast(taps, tf.float32))
            return tf.ensure_shape(dx, x.shape), _taps_gradient(dy, x, taps, left, dilation_rate)

        y = _compiled(_forward, *settings)(x, tf.cast(taps, tf.float32))
        return tf.ensure_shape(y, x.shape), grad

    return conv(x, taps)


def _taps_gradient(dy, x, taps, left, dilation_rate):
    num_heads, kernel_size = taps.shape[2:]
    time = length(dy)
    dy, x = fold_time(dy, dilation_rate), fold_time(x, dilation_rate)  # [B*r,T/r,D]
    batch, folded = length(dy, 0), length(dy)
    dy, x = to_blocks(dy, x, kernel_size, left)
    dy, x = _by_head(dy, num_heads), _by_head(x, num_heads)  # [B,N,H,block,D/H], [B,N,H,block+K-1,D/H]
    gram = tf.matmul(dy, x, transpose_b=True)  # [B,N,H,block,block+K-1]
    dtaps = tf.transpose(diagonals(gram, kernel_size), [0, 1, 3, 2, 4])  # [B,N,block,H,K]
    dtaps = tf.reshape(dtaps, [batch, -1, num_heads, kernel_size])[:, :folded]  # [B*r,T/r,H,K]
    return unfold_time(dtaps, dilation_rate, time)


def _by_head(blocks, num_heads):
    """[B,N,U,D] -> [B,N,H,U,D/H]."""
    batch, num_blocks, rows, dim = (length(blocks, axis) for axis in range(4))
    blocks = tf.reshape(blocks, [batch, num_blocks, rows, num_heads, dim // num_heads])  # [B,N,U,H,D/H]
    return tf.transpose(blocks, [0, 1, 3, 2, 4])
