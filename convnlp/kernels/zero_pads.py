"""Zeros at the pads, for the mixers that sum over a row."""

import tensorflow as tf

from convnlp.kernels.compiled import as_rows, compiled, float32, like, rounded
from convnlp.kernels.implementations import current_implementation


def zero_pads(x, padding_mask):
    """Zeros where there is no token.

    TensorFlow multiplies by a number for each row with a slow loop. The fast form is a compiled one. Measured
    for [8192,512] on two cores: 1.2 ms in bfloat16, 1.4 ms in float32, against 2.0 ms and 2.1 ms.

    Args:
        x: tensor [B,T,D], float.
        padding_mask: bool tensor [B,T], True = token, or None for no pads.

    Returns:
        Tensor [B,T,D] of x's type.

    Example:
    >>> zero_pads(tf.constant([[[1.0], [2.0]]]), tf.constant([[True, False]]))[0, :, 0].numpy().tolist()
    [1.0, 0.0]
    """
    if padding_mask is None:
        return x
    x = tf.convert_to_tensor(x)
    if current_implementation(x) == "fast":
        return _fast(x, tf.reshape(tf.cast(padding_mask, tf.float32), [-1, 1]))
    return x * tf.expand_dims(tf.cast(padding_mask, x.dtype), 2)


def _fast(x, mask):
    @tf.custom_gradient
    def zeroed(x):
        return like(_product(as_rows(x), mask), x), lambda dy: like(_product(as_rows(dy), mask), x)

    return zeroed(x)


@compiled
def _product(x, mask):
    return rounded(float32(x) * mask, x.dtype)
