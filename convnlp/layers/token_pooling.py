"""Pools positions into one: neighbours between the stages of a stack, or all tokens of a text."""

import keras
import tensorflow as tf

from convnlp import kernels


def pool_tokens(x, padding_mask, pool_size):
    """Merges each run of P neighbouring positions into one, the maximum over its tokens.

    Args:
        x: float tensor [B,T,D].
        padding_mask: bool tensor [B,T], True = token, or None for no pads.
        pool_size: int. Number P of neighbours that become one.

    Returns:
        Tensor [B,ceil(T/P),D], 0 where all were pads, and its padding mask, bool [B,ceil(T/P)].

    Example:
    >>> x = tf.constant([[[1.0], [-2.0], [-3.0], [9.0], [9.0]]])
    >>> y, mask = pool_tokens(x, tf.constant([[True, True, True, False, False]]), 2)
    >>> y[0, :, 0].numpy().tolist(), mask.numpy().tolist()
    ([1.0, -3.0, 0.0], [[True, True, False]])
    """
    if padding_mask is None:
        padding_mask = tf.ones(tf.shape(x)[:2], tf.bool)
    tokens = tf.expand_dims(_runs(padding_mask, pool_size), 3)  # [B,T/P,P,1]
    largest = tf.reduce_max(tf.where(tokens, _runs(x, pool_size), x.dtype.min), axis=2)  # [B,T/P,D]
    pooled_mask = tf.reduce_any(tokens, axis=2)  # [B,T/P,1]
    return tf.where(pooled_mask, largest, tf.zeros_like(largest)), tf.squeeze(pooled_mask, 2)


@keras.saving.register_keras_serializable(package="convnlp")
class MaskPooling(keras.layers.Layer):
    """The padding mask of pooled tokens; a layer, so that it can be part of a functional model.

    Args:
        pool_size: int. Number P of neighbours that become one.
        **kwargs: `name` of the Keras layer.

    Example:
    >>> MaskPooling(2)(tf.constant([[True, True, True, False, False]])).numpy().tolist()
    [[True, True, False]]
    """

    def __init__(self, pool_size, **kwargs):
        super().__init__(**kwargs)
        self.pool_size = pool_size
        self.built = True

    def call(self, padding_mask):
        """Returns whether any of P neighbours is a token: bool [B,T] -> bool [B,ceil(T/P)]."""
        return tf.reduce_any(_runs(padding_mask, self.pool_size), axis=2)

    def get_config(self):
        return {**super().get_config(), "pool_size": self.pool_size}


@keras.saving.register_keras_serializable(package="convnlp")
class TextPooling(keras.layers.Layer):
    """Mean and maximum of each channel over the tokens of a text, in float32.

    Pads do not count, whatever their values. A row without tokens gives zeros; a batch without rows gives no
    rows. In TFLite, pads get the smallest value of their channel, which leaves the maximum unchanged, because
    XNNPACK has no selection.

    Args:
        **kwargs: `name` of the Keras layer.

    Example:
    >>> x = tf.constant([[[1.0, -3.0], [3.0, -1.0], [9.0, 9.0]]])
    >>> mean, maximum = TextPooling()(x, tf.constant([[True, True, False]]))
    >>> mean.numpy().tolist(), maximum.numpy().tolist()
    ([[2.0, -2.0]], [[3.0, -1.0]])
    """

    def __init__(self, **kwargs):
        super().__init__(**{"dtype": "float32", **kwargs})

    def call(self, x, padding_mask):
        """Pools x [B,T,D] with padding_mask bool [B,T], True = token, to mean and maximum, float32 [B,D]."""
        x = kernels.zero_pads(tf.cast(x, tf.float32), padding_mask)
        tokens = tf.expand_dims(tf.cast(padding_mask, tf.float32), 2)  # [B,T,1]
        count = tf.reduce_sum(tokens, axis=1)  # [B,1]
        mean = tf.reduce_sum(x, axis=1) / tf.maximum(count, 1.0)
        if kernels.current_implementation() == "edge":
            smallest = tf.reduce_min(x, axis=1, keepdims=True)  # [B,1,D], 0 in a row of pads
            return mean, tf.reduce_max(x + smallest * (1.0 - tokens), axis=1)
        seen = tf.where(tokens > 0.0, x, tf.float32.min)
        return mean, tf.where(count > 0.0, tf.reduce_max(seen, axis=1), 0.0)

    def compute_output_shape(self, x_shape, padding_mask_shape=None):
        shape = (x_shape[0], x_shape[2])
        return shape, shape


def _runs(x, pool_size):
    """[B,T,...] -> [B,ceil(T/P),P,...], with zeros after the last position."""
    shape = tf.shape(x)
    rest = -shape[1] % pool_size
    x = tf.pad(x, [[0, 0], [0, rest]] + [[0, 0]] * (x.shape.rank - 2))
    return tf.reshape(x, [shape[0], -1, pool_size, *x.shape[2:]])  # [B,T/P,P,...]
