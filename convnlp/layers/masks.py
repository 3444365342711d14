"""Which positions an output may see, and where each text of a packed row begins."""

import functools
import operator
from typing import NamedTuple

import keras
import tensorflow as tf

from convnlp.kernels import same_segment


class Masks(NamedTuple):
    """The masks of a `TokenMixer.call`, under the names of its arguments; None for none.

    `right_to_left` is not a tensor but a bool: whether a position sees only itself and what follows.

    `layer(x, **masks._asdict())` passes them on.
    """

    padding_mask: tf.Tensor | None = None
    segment_ids: tf.Tensor | None = None
    prefix_mask: tf.Tensor | None = None
    right_to_left: bool = False

    def visible_keys(self, x, causal):
        """Returns which keys each query of a row may see, for `kernels.masked_softmax`.

        Args:
            x: tensor [B,T,...].
            causal: bool. Whether keys to the right of their query are hidden.

        Returns:
            Bool tensor [B or 1,T or 1,T], or None if all are visible.
        """
        parts = []
        if causal or self.prefix_mask is not None:
            positions = tf.range(tf.shape(x)[1])
            earlier = tf.expand_dims(positions <= tf.expand_dims(positions, 1), 0)  # [1,T,T]
            parts.append(earlier if causal else earlier | tf.expand_dims(self.prefix_mask, 1))  # [B,T,T]
        if self.right_to_left:
            positions = tf.range(tf.shape(x)[1])
            parts.append(tf.expand_dims(positions >= tf.expand_dims(positions, 1), 0))  # [1,T,T]
        if self.segment_ids is not None:
            parts.append(same_segment(self.segment_ids))  # [B,T,T]
        if self.padding_mask is not None:
            parts.append(tf.expand_dims(self.padding_mask, 1))  # [B,1,T]
        return functools.reduce(operator.and_, parts) if parts else None

    def text_ids(self, x):
        """Returns which text each position of x [B,T,...] belongs to, int32 [B,T]; 0 at pads."""
        ids = tf.ones(tf.shape(x)[:2], tf.int32) if self.segment_ids is None else self.segment_ids
        return ids if self.padding_mask is None else ids * tf.cast(self.padding_mask, tf.int32)


class MaskedLayer(keras.layers.Layer):
    """A layer with the call signature of `TokenMixer`; a subclass implements `mix`."""

    def call(
        self,
        x,
        padding_mask=None,
        segment_ids=None,
        training=False,
        prefix_mask=None,
        right_to_left=False,
    ):
        """Maps x [B,T,D] to [B,T,D]; arguments as in `TokenMixer.call`."""
        return self.mix(x, Masks(padding_mask, segment_ids, prefix_mask, right_to_left), training)

    def mix(self, x, masks, training):
        """Like `call`, with `Masks`."""
        raise NotImplementedError


def visible_in_cache(index, count, length):
    """Like `Masks.visible_keys`, for a chunk of queries over a cache of keys.

    Args:
        index: int or int32 scalar tensor. Position of the first query.
        count: int or scalar tensor. Number C of queries.
        length: int or scalar tensor. Number L of keys in the cache.

    Returns:
        Bool tensor [1,C,L].
    """
    return tf.expand_dims(tf.range(length) <= tf.expand_dims(index + tf.range(count), 1), 0)


def positions_in_segments(segment_ids):
    """Returns positions counted from the start of each text of a packed row: int32 [B,T] -> int32 [B,T].

    Example:
    >>> positions_in_segments(tf.constant([[1, 1, 1, 2, 2, 0]])).numpy().tolist()
    [[0, 1, 2, 0, 1, 0]]
    """
    index = tf.range(tf.shape(segment_ids)[1])
    earlier = same_segment(segment_ids) & (index < tf.expand_dims(index, 1))  # [B,T,T]
    return tf.reduce_sum(tf.cast(earlier, tf.int32), axis=2)
