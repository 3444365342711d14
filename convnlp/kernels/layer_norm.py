"""Layer normalisation before a sublayer, together with the residual connection around it."""

import tensorflow as tf

from convnlp.kernels.compiled import as_rows, compiled, float32, like, rounded
from convnlp.kernels.implementations import current_implementation


def layer_norm(x, scale=None, offset=None, epsilon=1e-6, is_centred=False):
    """Normalises the last axis in float32, and also returns x for the residual connection.

        y = scale * (x - m) / sqrt(v + epsilon) + offset        m, v: mean and variance of a row of x

    A residual connection reads x a second time. If it reads the x returned here, the gradients of both uses
    are added in one loop. TensorFlow computes y in about ten passes over memory, and its gradient in twenty.
    The fast form is one compiled loop for each. In it, sums over a row and the gradients of scale and offset,
    which are sums over all rows, are products with a vector of ones: XLA's own reductions take three to six
    times as long. Measured for [8192,256] in bfloat16 on one core: 1.1 ms, 3.0 ms with the gradient, against
    3.2 ms and 10.5 ms.

    Args:
        x: tensor [..., D], float.
        scale: float32 tensor [D]. Defaults to 1.
        offset: float32 tensor [D]. Defaults to 0.
        epsilon: float. Added to the variance. Defaults to `1e-6`.
        is_centred: bool. Whether m is known to be 0, so that exported graphs need not compute it. Defaults to
            `False`.

    Returns:
        y and x, both of x's shape and dtype.

    Example:
    >>> y, x = layer_norm(tf.constant([[1.0, 3.0]]), tf.ones([2]), tf.zeros([2]))
    >>> tf.round(y).numpy().tolist(), x.numpy().tolist()
    ([[-1.0, 1.0]], [[1.0, 3.0]])
    """
    x = tf.convert_to_tensor(x)
    if current_implementation(x) == "fast":
        scale = tf.ones([x.shape[-1]]) if scale is None else tf.convert_to_tensor(scale)
        offset = tf.zeros([x.shape[-1]]) if offset is None else tf.convert_to_tensor(offset)
        return _fast(x, scale, offset, epsilon)
    wide = float32(x)
    if is_centred:
        centred, variance = wide, tf.reduce_mean(tf.square(wide), axis=-1, keepdims=True)
    else:
        mean, variance = tf.nn.moments(wide, axes=[-1], keepdims=True)
        centred = wide - mean
    factor = tf.math.rsqrt(variance + epsilon)
    y = centred * (factor if scale is None else factor * scale)
    return tf.cast(y if offset is None else y + offset, x.dtype), x


def _fast(x, scale, offset, epsilon):
    @tf.custom_gradient
    def norm(x, scale, offset):
        rows = as_rows(x)
        y, mean, inverse_deviation = _forward(rows, scale, offset, epsilon=epsilon)

        def grad(dy, dx):
            sums = _backward(as_rows(dy), as_rows(dx), rows, scale, mean, inverse_deviation)
            return like(sums[0], x), sums[1], sums[2]

        return (like(y, x), tf.identity(x)), grad

    return norm(x, scale, offset)


def _row_mean(x):
    """[R,D] -> [R,1]."""
    return tf.matmul(x, tf.ones([x.shape[1], 1])) / x.shape[1]


def _column_sum(x):
    """[R,D] -> [D]."""
    return tf.matmul(tf.ones([1, tf.shape(x)[0]]), x)[0]


@compiled
def _forward(x, scale, offset, epsilon):
    wide = float32(x)
    mean = _row_mean(wide)
    centred = wide - mean
    inverse_deviation = tf.math.rsqrt(_row_mean(tf.square(centred)) + epsilon)
    return rounded(centred * inverse_deviation * scale + offset, x.dtype), mean, inverse_deviation


@compiled
def _backward(dy, dx, x, scale, mean, inverse_deviation):
    """Returns the gradients of x, scale and offset; x's is dx plus the part that comes through y."""
    dy = float32(dy)
    normalized = (float32(x) - mean) * inverse_deviation
    scaled = dy * scale
    inner = scaled - _row_mean(scaled) - normalized * _row_mean(scaled * normalized)
    total = rounded(float32(dx) + inverse_deviation * inner, x.dtype)
    return total, _column_sum(dy * normalized), _column_sum(dy)
