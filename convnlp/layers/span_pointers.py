"""Pointers to where an answer begins and ends among the tokens of its context."""

import keras
import tensorflow as tf

from convnlp import kernels


@keras.saving.register_keras_serializable(package="convnlp")
class SpanPointers(keras.layers.Layer):
    """Logits z_p[t] = w_p . x_t + b_p of the beginning (p = 0) and the end (p = 1) of an answer.

    A pointer chooses among the context's tokens and the question's end token before them, which means "not in
    this row". At all other positions (pads, question, last end token), z is `lowest`.

    Source: Devlin et al., 2019, section 4.2, https://arxiv.org/abs/1810.04805.
    Departs from it: the question's end token replaces [CLS]; positions that no pointer may choose are masked.

    Args:
        end_token_id: int. The id of `</s>`.
        lowest: float, so low that its exponential is 0, but within float16's range.
        **kwargs: `name` of the Keras layer, which computes in float32.

    Example:
    >>> ids, segments = tf.constant([[7, 1, 5, 1, 0]]), tf.constant([[1, 1, 2, 2, 0]])
    >>> logits = SpanPointers(end_token_id=1, lowest=-1e4)(tf.zeros([1, 5, 8]), ids, segments)
    >>> logits[0, 0].numpy().tolist()
    [-10000.0, 0.0, 0.0, -10000.0, -10000.0]
    """

    def __init__(self, end_token_id, lowest, **kwargs):
        super().__init__(**{"dtype": "float32", **kwargs})
        self.end_token_id, self.lowest = end_token_id, lowest
        self.pointers = keras.layers.Dense(2, dtype="float32", name="pointers")

    def build(self, x_shape, token_ids_shape=None, segment_ids_shape=None):
        self.pointers.build(x_shape)

    def call(self, x, token_ids, segment_ids):
        """Returns logits float32 [B,2,T].

        Args:
            x: float tensor [B,T,D].
            token_ids: int tensor [B,T].
            segment_ids: int tensor [B,T], from `PairSegments`.
        """
        is_end = tf.equal(token_ids, self.end_token_id)
        is_context = tf.equal(segment_ids, 2) & ~is_end
        is_nowhere = tf.equal(segment_ids, 1) & is_end
        allowed = is_context | is_nowhere
        x = kernels.zero_pads(tf.cast(x, tf.float32), allowed)
        logits = tf.transpose(self.pointers(x), [0, 2, 1])  # [B,2,T]
        allowed = tf.cast(tf.expand_dims(allowed, 1), tf.float32)  # [B,1,T]
        return logits * allowed + (1.0 - allowed) * self.lowest  # products, as XNNPACK has no selection

    def compute_output_spec(self, x, token_ids, segment_ids):
        return keras.KerasTensor((x.shape[0], 2, x.shape[1]), "float32")

    def get_config(self):
        return {**super().get_config(), "end_token_id": self.end_token_id, "lowest": self.lowest}
