"""The matrix product of every projection."""

import tensorflow as tf

from convnlp.kernels.implementations import current_implementation


def project(x, kernel):
    """The product of the last axis with a matrix.

        y[..., e] = sum_d x[..., d] kernel[d, e]

    In TensorFlow one product of all rows as a matrix is the fastest. In TFLite the two reshapes around it
    have shapes that are computed when the model runs, at which XNNPACK, its fast implementation, stops; the
    product of the three axes as they are becomes one FULLY_CONNECTED.

    A float32 x meets a kernel that is stored in bfloat16 by a product in bfloat16, whose sums are float32: x
    is rounded before it and the result behind it. All else of such a model stays float32, which costs
    two casts per product; in TensorFlow a CPU computes other operations more slowly in bfloat16.

    Args:
        x: tensor [..., D], float.
        kernel: tensor [D,E], float. It is cast to x's type, but for bfloat16 where x is float32.

    Returns:
        Tensor [..., E] of x's type.

    Example:
    >>> project(tf.constant([[[1.0, 2.0]]]), tf.constant([[10.0], [1.0]])).numpy().tolist()
    [[[12.0]]]
    """
    x, kernel = tf.convert_to_tensor(x), tf.convert_to_tensor(kernel)
    if (x.dtype, kernel.dtype) == (tf.float32, tf.bfloat16):
        return tf.cast(_product(tf.cast(x, tf.bfloat16), kernel), tf.float32)
    return _product(x, tf.cast(kernel, x.dtype))


def _product(x, kernel):
    if current_implementation() == "edge":
        return tf.matmul(x, kernel)
    return tf.tensordot(x, kernel, 1)
