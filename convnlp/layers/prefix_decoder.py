"""The decoder of a model without an encoder: one stack reads the source and writes the target."""

import keras
import tensorflow as tf

from convnlp.layers.cache import write
from convnlp.layers.encoder import Encoder


@keras.saving.register_keras_serializable(package="convnlp")
class PrefixDecoder(Encoder):
    """A stack of `EncoderLayer`s over the source and the target in one row, with the source as prefix.

    The source is seen whole, from itself and from the target; a target position sees the targets up to
    itself. In place of cross-attention the mixers carry the source over, as far as they reach. The source
    ends right before the target, whatever pads stood behind it, so that pads change nothing.

    Source: Dong et al., 2019, "Unified Language Model Pre-training for Natural Language Understanding and
    Generation", section 2.3, https://arxiv.org/abs/1905.03197; see `TokenMixer.call`.
    Departs from it: no segment embedding tells source and target apart.

    Cost: that of the row. A step computes the whole row again, since mixers that look to both sides have no
    steps: T tokens cost T times as much as in one call.

    Args:
        mixers: list of dicts, one `build_mixer` argument set per layer, of mixers with
            supports_prefix = True and not causal.
        intermediate_dim, residual_form, dropout: as in `EncoderLayer`.

    Example:
    >>> mixers = [{"name": "dynamic_conv", "hidden_dim": 8, "num_heads": 2, "kernel_size": 9}]
    >>> decoder = PrefixDecoder(mixers, intermediate_dim=16)
    >>> decoder(tf.ones([2, 3, 8]), tf.ones([2, 5, 8])).shape
    TensorShape([2, 3, 8])
    """

    def call(self, x, encoder_output, allowed=None, padding_mask=None, segment_ids=None, training=False):
        """Decodes x [B,T,D] behind the source encoder_output [B,S,D] -> [B,T,D].

        Args:
            x: float tensor [B,T,D].
            encoder_output: float tensor [B,S,D].
            allowed: bool tensor [B,1,S], the source's tokens; pads stand behind them. Defaults to all.
            padding_mask: bool tensor [B,T], True = token. Defaults to no pads.
            segment_ids: must be None.
            training: bool. Whether dropout is active.

        Returns:
            Tensor [B,T,D].

        Raises:
            ValueError: on `segment_ids`.
        """
        if segment_ids is not None:
            raise ValueError(
                "`segment_ids` must be None: a model without an encoder has each source and its target in a "
                f"row of their own. Received: segment_ids={segment_ids}"
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
        """The stack on one row as it is, [B,S,D] -> [B,S,D].

        Args:
            x: float tensor [B,S,D].
            padding_mask: bool tensor [B,S], True = token. Defaults to no pads.
            prefix_mask: bool tensor [B,S], True = source, with its target behind it. Defaults to a text
                alone, which is seen whole.
            training: bool. Whether dropout is active.

        Returns:
            Tensor [B,S,D].
        """
        return super().call(x, padding_mask=padding_mask, prefix_mask=prefix_mask, training=training)

    def init_state(self, encoder_output, max_length):
        """The flat state before the first token: the source, and room for `max_length` inputs."""
        shape = tf.shape(encoder_output)
        room = tf.zeros([shape[0], max_length, encoder_output.shape[2]], encoder_output.dtype)
        return {"source": encoder_output, "inputs": room}

    def step(self, x, state, index, allowed=None):
        """The stack at the positions of a chunk: x [B,C,D] -> ([B,C,D], state)."""
        inputs = write(state["inputs"], tf.cast(x, state["inputs"].dtype), index)
        y = self(inputs, state["source"], allowed=allowed)  # what stands behind the chunk is not seen
        chunk = index + tf.range(tf.shape(x)[1])
        return tf.gather(y, chunk, axis=1), {**state, "inputs": inputs}

    def cost(self, length, encoder_length=0):
        """The contract's cost of `length` target tokens behind `encoder_length` source tokens."""
        cost = super().cost(length + encoder_length)
        return {**cost, "state_elements": (length + encoder_length) * self.mixers[0]["hidden_dim"]}
