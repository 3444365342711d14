"""The real part of a text's discrete Fourier transform over positions and channels."""

import math

import tensorflow as tf

from convnlp.kernels.implementations import current_implementation


def real_dft(x, size=None):
    """Returns y[k, c] = sum_{t,d} cos(2 pi (k t / n + c d / D)) x[t, d], the real part of the transform.

    The fast form is a complex FFT. The others are real matrix products C_n X C_D - S_n X S_D, where C_n[p, q]
    = cos(2 pi p q / n) and S_n[p, q] = sin(2 pi p q / n); TFLite only has operations for these.

    Args:
        x: float tensor [B,T,D].
        size: int or scalar tensor n >= T, to which rows are padded with zeros. Defaults to T.

    Returns:
        Tensor [B,T,D] of x's dtype: the first T of the n frequencies k.

    Example:
    >>> real_dft(tf.constant([[[1.0], [2.0], [3.0]]]))[0, :, 0].numpy().round(3).tolist()
    [6.0, -1.5, -1.5]
    """
    length = tf.shape(x)[1]
    size = length if size is None else size
    if current_implementation() != "fast":
        positions = tf.expand_dims(tf.range(length), 0)
        return real_dft_of_texts(x, positions, tf.ones_like(positions) * size)
    # There is no complex dtype below 64 bits.
    rows = tf.pad(tf.cast(x, tf.float32), [[0, 0], [0, size - length], [0, 0]])  # [B,n,D]
    spectrum = tf.signal.fft2d(tf.complex(rows, tf.zeros_like(rows)))
    return tf.cast(tf.math.real(spectrum)[:, :length], x.dtype)


def real_dft_of_texts(x, positions, sizes, visible=None):
    """Like `real_dft`, for texts of different sizes; matrix products in every form.

    Args:
        x: float tensor [B,T,D], zero at pads.
        positions: int32 tensor [B or 1,T], the position of each token in its text.
        sizes: int32 tensor [B or 1,T], the size n >= 1 of each token's text.
        visible: bool tensor [B,T,T], which positions belong to the text of the position on the second axis.
            Defaults to all.

    Returns:
        Tensor [B,T,D] of x's dtype.

    Example:
    >>> x = tf.constant([[[1.0], [2.0], [0.0]], [[1.0], [2.0], [3.0]]])
    >>> sizes = tf.constant([[2, 2, 2], [3, 3, 3]])
    >>> real_dft_of_texts(x, tf.range(3)[tf.newaxis], sizes)[:, :2, 0].numpy().round(3).tolist()
    [[3.0, -1.0], [6.0, -1.5]]
    """
    channels = tf.expand_dims(tf.range(x.shape[2]), 0)
    cos, sin = _waves(channels, channels, x.shape[2])  # [1,D,D] each
    along_channels = tf.matmul(x, tf.cast(tf.concat([cos, sin], axis=2)[0], x.dtype))  # [B,T,2D]
    even, odd = tf.split(along_channels, 2, axis=2)
    cos, sin = _waves(positions, positions, tf.expand_dims(sizes, 2))  # [B or 1,T,T] each
    if visible is not None:
        cos, sin = (tf.where(visible, wave, 0.0) for wave in (cos, sin))
    return tf.matmul(tf.cast(cos, x.dtype), even) - tf.matmul(tf.cast(sin, x.dtype), odd)  # [B,T,D]


def _waves(rows, columns, size):
    """Returns cos and sin of 2 pi p q / n, float32 [B,P,Q]; int32 p [B,P], q [B,Q], n [B,P,1] or scalar."""
    # The products are reduced modulo n as integers: large angles would lose precision in float32.
    products = tf.expand_dims(rows, 2) * tf.expand_dims(columns, 1)
    angles = tf.cast(products % size, tf.float32) * (2 * math.pi) / tf.cast(size, tf.float32)
    return tf.cos(angles), tf.sin(angles)
