"""Zeroes pads, whatever their values."""

import tensorflow as tf

from convnlp.kernels.compiled import as_rows, compiled, float32, like, rounded
from convnlp.kernels.implementations import current_implementation


def zero_pads(x, padding_mask):
    """Sets x to zero at pads.

    This is more than a product with the mask, because zero times an infinity or NaN is NaN. In TFLite it is
    only that product, and pads must be finite, because XNNPACK has no suitable operation.

    TensorFlow's loop for multiplying each row by a number is slow. The fast form is a compiled loop. Measured
    for [8192,512] on two cores: 1.2 ms in bfloat16, 1.4 ms in float32, against 2.0 ms and 2.1 ms.

    Args:
        x: tensor [B,T,D], float.
        padding_mask: bool tensor [B,T], True = token, or None for no pads.

    Returns:
        Tensor [B,T,D] of x's dtype.

    Example:
    >>> zero_pads(tf.constant([[[1.0], [2.0]]]), tf.constant([[True, False]]))[0, :, 0].numpy().tolist()
    [1.0, 0.0]
    """
    if padding_mask is None:
        return x
    x = tf.convert_to_tensor(x)
    if current_implementation(x) == "fast":
        return _fast(x, tf.reshape(tf.cast(padding_mask, tf.float32), [-1, 1]))
    return only_tokens(x, tf.expand_dims(tf.cast(padding_mask, x.dtype), -1))


def only_tokens(x, mask):
    """Zeroes x where a mask of 1 and 0, of x's dtype, is 0; by TensorFlow operations."""
    return x * mask if current_implementation() == "edge" else tf.math.multiply_no_nan(x, mask)


def _fast(x, mask):
    @tf.custom_gradient
    def zeroed(x):
        return like(_selected(as_rows(x), mask), x), lambda dy: like(_selected(as_rows(dy), mask), x)

    return zeroed(x)


@compiled
def _selected(x, mask):
    return rounded(tf.where(mask > 0.0, float32(x), 0.0), x.dtype)
