"""The matrix product of all projections."""

import tensorflow as tf

from convnlp.kernels.compiled import as_rows
from convnlp.kernels.implementations import current_implementation


def project(x, kernel, offset=None):
    """Multiplies the last axis by a matrix.

        y[..., e] = sum_d x[..., d] kernel[d, e] + offset[e]

    TensorFlow is fastest with one product of all rows as a matrix. In SavedModels, the two reshapes around it
    take five operations, where `tf.tensordot` takes ten. In TFLite, the shapes of these reshapes would be
    computed at run time, and there XNNPACK, its fast implementation, stops; a product with the three axes of
    x unchanged becomes a single FULLY_CONNECTED.

    If x is float32 and the kernel is stored in bfloat16, the product is in bfloat16 with float32 sums: x is
    rounded before it, and the result after it (without AVX-512, TensorFlow cuts the result). All else in such
    a model stays float32, at the cost of two casts per product, because a CPU computes other TensorFlow
    operations more slowly in bfloat16.

    Args:
        x: tensor [..., D], float.
        kernel: tensor [D,E], float. It is cast to x's dtype, unless it is bfloat16 and x is float32.
        offset: float array [E]. Defaults to none.

    Returns:
        Tensor [..., E] of x's dtype.

    Example:
    >>> project(tf.constant([[[1.0, 2.0]]]), tf.constant([[10.0], [1.0]])).numpy().tolist()
    [[[12.0]]]
    """
    x, kernel = tf.convert_to_tensor(x), tf.convert_to_tensor(kernel)
    if (x.dtype, kernel.dtype) == (tf.float32, tf.bfloat16):
        y = tf.cast(_product(tf.cast(x, tf.bfloat16), kernel, None), tf.float32)
        return _with_offset(y, offset)
    return _product(x, tf.cast(kernel, x.dtype), offset)


def by_rows(function, x):
    """Returns `function(x)`, for a function that treats all rows of x [..., D] alike.

    In a SavedModel, where each product would turn x into a matrix and back, the function gets the matrix
    [R,D] instead. TensorFlow can then run a product, its offset and an activation as one operation.

    Args:
        function: callable, tensor [..., D] -> tensor [..., E].
        x: tensor [..., D].

    Returns:
        Tensor [..., E].

    Example:
    >>> by_rows(lambda rows: 2.0 * rows, tf.ones([2, 3, 4])).shape
    TensorShape([2, 3, 4])
    """
    if current_implementation() != "inference" or x.shape.rank == 2:
        return function(x)
    y = function(as_rows(x))
    shaped = tf.reshape(y, tf.concat([tf.shape(x)[:-1], [y.shape[1]]], 0))
    shaped.set_shape([*x.shape[:-1], y.shape[1]])  # unlike tf.ensure_shape, this adds no operation
    return shaped


def _product(x, kernel, offset):
    form = current_implementation()
    if form == "inference":
        return by_rows(lambda rows: _with_offset(tf.matmul(rows, kernel), offset), x)
    y = tf.matmul(x, kernel) if form == "edge" else tf.tensordot(x, kernel, 1)
    return _with_offset(y, offset)


def _with_offset(y, offset):
    return y if offset is None else tf.nn.bias_add(y, tf.cast(offset, y.dtype))
