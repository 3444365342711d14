"""The gate of the convolution block."""

import tensorflow as tf

from convnlp.kernels.compiled import as_rows, compiled, float32, like, rounded
from convnlp.kernels.implementations import current_implementation
from convnlp.kernels.zero_pads import only_tokens


def gated_linear_unit(x, padding_mask=None):
    """Multiplies each channel of the first half by the sigmoid of its partner in the second half.

        y[c] = x[c] * sigmoid(x[D + c])        0 at pads, whatever x is there

    In TensorFlow, a bfloat16 sigmoid and its gradient take four times as long as in float32. The fast form is
    one compiled loop in each direction that computes in float32. Measured for [8192,512] in bfloat16 on one
    core: 2.4 ms, 4.7 ms with the gradient, against 5.8 ms and 9.1 ms. The mask costs 0.2 ms inside the loop,
    but 2.3 ms as a separate product after it (two threads).

    Args:
        x: tensor [..., 2D], float.
        padding_mask: bool tensor [...], True = token. Defaults to no pads.

    Returns:
        Tensor [..., D] of x's dtype.

    Example:
    >>> gated_linear_unit(tf.constant([[3.0, 0.0]])).numpy().tolist()
    [[1.5]]
    """
    x = tf.convert_to_tensor(x)
    if current_implementation(x) == "fast":
        mask = [] if padding_mask is None else [tf.reshape(tf.cast(padding_mask, tf.float32), [-1, 1])]
        return _fast(x, mask)
    linear, gate = tf.split(x, 2, axis=-1)
    y = linear * tf.sigmoid(gate)
    return y if padding_mask is None else only_tokens(y, tf.expand_dims(tf.cast(padding_mask, y.dtype), -1))


def _fast(x, mask):
    @tf.custom_gradient
    def gated(x):
        def grad(dy):
            # Two outputs and a copy, because XLA concatenates element by element.
            return like(tf.concat(_backward(as_rows(dy), as_rows(x), *mask), axis=1), x)

        return like(_forward(as_rows(x), *mask), x), grad

    return gated(x)


def _tokens(x, *mask):
    """Zeroes x [R,D] where the mask [R,1], if there is one, is 0."""
    return tf.where(mask[0] > 0.0, x, 0.0) if mask else x


def _halves(x):
    """Returns the linear half of x [R,2D] and the sigmoid of the other half, float32 [R,D] each."""
    dim = x.shape[1] // 2
    return float32(x[:, :dim]), tf.sigmoid(float32(x[:, dim:]))


@compiled
def _forward(x, *mask):
    linear, gate = _halves(x)
    return rounded(_tokens(linear * gate, *mask), x.dtype)


@compiled
def _backward(dy, x, *mask):
    linear, gate = _halves(x)
    dlinear = _tokens(float32(dy) * gate, *mask)
    return rounded(dlinear, x.dtype), rounded(_tokens(dlinear * linear * (1.0 - gate), *mask), x.dtype)
