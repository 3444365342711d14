"""The matrix product of every projection."""

import tensorflow as tf

from convnlp.kernels.implementations import current_implementation


def project(x, kernel):
    """The product of the last axis with a matrix.

        y[..., e] = sum_d x[..., d] kernel[d, e]

    In TensorFlow one product of all rows as a matrix is the fastest. In TFLite the two reshapes around it
    have shapes that are computed when the model runs, at which XNNPACK, its fast implementation, stops; the
    product of the three axes as they are becomes one FULLY_CONNECTED.

    Args:
        x: tensor [..., D], float.
        kernel: tensor [D,E] of the same type.

    Returns:
        Tensor [..., E] of x's type.

    Example:
    >>> project(tf.constant([[[1.0, 2.0]]]), tf.constant([[10.0], [1.0]])).numpy().tolist()
    [[[12.0]]]
    """
    if current_implementation() == "edge":
        return tf.matmul(x, kernel)
    return tf.tensordot(x, kernel, 1)
