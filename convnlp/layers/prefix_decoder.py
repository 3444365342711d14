"""The decoder of a model without an encoder: one stack reads the source and writes the target."""

import keras
import tensorflow as tf

from convnlp.layers.cache import write
from convnlp.layers.encoder import Encoder


@keras.saving.register_keras_serializable(package="convnlp")
class PrefixDecoder(Encoder):
    """A stack of `EncoderLayer`s over the source and the target in one row, with the source as prefix.

    The source is visible to all positions; a target position also sees the target up to itself. Instead of
    cross-attention, the mixers carry information from the source to the target, as far as they reach. Pads
    are moved to the front of the source, so that it always ends right before the target.

    Source: Dong et al., 2019, "Unified Language Model Pre-training for Natural Language Understanding and
    Generation", section 2.3, https://arxiv.org/abs/1905.03197; see `TokenMixer.call`.
    Departs from it: no segment embedding tells source and target apart.

    Cost: that of the whole row. Mixers that look in both directions have no steps, so every step computes the
    whole row again: decoding T tokens one by one costs T calls.

    Args:
        mixers: list of dicts, the arguments of `build_mixer` for each layer, of mixers that have
            supports_prefix = True and are not causal.
        intermediate_dim, residual_form, dropout, **kwargs: as in `Encoder`.

    Example:
    >>> mixers = [{"name": "dynamic_conv", "hidden_dim": 8, "num_heads": 2, "kernel_size": 9}]
    >>> decoder = PrefixDecoder(mixers, intermediate_dim=16)
    >>> decoder(tf.ones([2, 3, 8]), tf.ones([2, 5, 8])).shape
    TensorShape([2, 3, 8])
    """

    def call(self, x, encoder_output, allowed=None, padding_mask=None, segment_ids=None, training=False):
        """Decodes x [B,T,D] after the source encoder_output [B,S,D] -> [B,T,D].

        Args:
            x: float tensor [B,T,D].
            encoder_output: float tensor [B,S,D].
            allowed: bool tensor [B,1,S], True = token of the source; its pads come last. Defaults to no pads.
            padding_mask: bool tensor [B,T], True = token. Defaults to no pads.
            segment_ids: must be None, because packed rows are not supported.
            training: bool. Whether dropout is active.

        Returns:
            Tensor [B,T,D].

        Raises:
            ValueError: if `segment_ids` are given.
        """
        if segment_ids is not None:
            raise ValueError(
                "`segment_ids` must be None: a model without an encoder needs a separate row for each source "
                f"and its target. Received: segment_ids={segment_ids}"
            )
        source_length = tf.shape(encoder_output)[1]
        is_source = tf.ones(tf.shape(encoder_output)[:2], tf.bool) if allowed is None else allowed[:, 0]
        is_target = tf.ones(tf.shape(x)[:2], tf.bool) if padding_mask is None else padding_mask
        count = tf.reduce_sum(tf.cast(is_source, tf.int32), axis=1, keepdims=True)  # [B,1]
        places = (tf.range(source_length) + count) % tf.maximum(source_length, 1)  # [B,S]: pads come first
        source = tf.gather(encoder_output, places, batch_dims=1)  # [B,S,D]
        is_source = tf.gather(is_source, places, batch_dims=1)  # [B,S]
        y = super().call(
            tf.concat([tf.cast(source, x.dtype), x], axis=1),  # [B,S+T,D]
            padding_mask=tf.concat([is_source, is_target], axis=1),
            training=training,
            prefix_mask=tf.concat([is_source, tf.zeros_like(is_target)], axis=1),
        )
        return y[:, source_length:]

    def read(self, x, padding_mask=None, prefix_mask=None, training=False):
        """Runs the stack on rows that already hold source and target, [B,S,D] -> [B,S,D].

        Args:
            x: float tensor [B,S,D].
            padding_mask: bool tensor [B,S], True = token. Defaults to no pads.
            prefix_mask: bool tensor [B,S], True = source, which the target follows. Defaults to a single
                text, visible to all positions.
            training: bool. Whether dropout is active.

        Returns:
            Tensor [B,S,D].
        """
        return super().call(x, padding_mask=padding_mask, prefix_mask=prefix_mask, training=training)

    def init_state(self, encoder_output, max_length):
        """Returns the flat state before the first token: the source, and room for `max_length` inputs."""
        shape = tf.shape(encoder_output)
        room = tf.zeros([shape[0], max_length, encoder_output.shape[2]], encoder_output.dtype)
        return {"source": encoder_output, "inputs": room}

    def step(self, x, state, index, allowed=None):
        """Runs the stack on a chunk of positions from `index` on: x [B,C,D] -> ([B,C,D], state)."""
        inputs = write(state["inputs"], tf.cast(x, state["inputs"].dtype), index)
        y = self(inputs, state["source"], allowed=allowed)  # the chunk does not see what follows it
        chunk = index + tf.range(tf.shape(x)[1])
        return tf.gather(y, chunk, axis=1), {**state, "inputs": inputs}

    def cost(self, length, encoder_length=0):
        """Like `TokenMixer.cost`, for `length` target tokens after `encoder_length` source tokens."""
        cost = super().cost(length + encoder_length)
        return {**cost, "state_elements": (length + encoder_length) * self.mixers[0]["hidden_dim"]}
