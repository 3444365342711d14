"""Tells which text of a pair each token of a row belongs to."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="convnlp")
class PairSegments(keras.layers.Layer):
    """Segment ids of rows `first </s> second </s>`; a layer, so that it can be part of a functional model.

    Args:
        end_token_id: int. The id of `</s>`.
        **kwargs: `name` of the Keras layer.

    Example:
    >>> ids, mask = tf.constant([[7, 8, 1, 9, 1, 0]]), tf.constant([[True, True, True, True, True, False]])
    >>> PairSegments(end_token_id=1)(ids, mask).numpy().tolist()
    [[1, 1, 1, 2, 2, 0]]
    """

    def __init__(self, end_token_id, **kwargs):
        super().__init__(**kwargs)
        self.end_token_id = end_token_id
        self.built = True

    def call(self, token_ids, padding_mask):
        """Returns segment ids int32 [B,T], 1 and 2 for the texts, 0 at pads.

        A row of one text is all 1; tokens after a second end token belong to the second text.

        Args:
            token_ids: int tensor [B,T].
            padding_mask: bool tensor [B,T], True = token.
        """
        tokens = tf.cast(padding_mask, tf.int32)
        ends = tf.cast(tf.equal(token_ids, self.end_token_id), tf.int32) * tokens
        before = tf.cumsum(ends, axis=1) - ends  # end tokens before a position
        return (1 + tf.minimum(before, 1)) * tokens

    def compute_output_spec(self, token_ids, padding_mask):
        return keras.KerasTensor(token_ids.shape, "int32")

    def get_config(self):
        return {**super().get_config(), "end_token_id": self.end_token_id}
