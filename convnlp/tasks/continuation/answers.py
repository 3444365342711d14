"""The answers of an exported `PrefixLM`."""

import tensorflow as tf

from convnlp.models.token_rows import token_rows
from convnlp.tasks.answers import Answers
from convnlp.tasks.continuation.reference import PrefixLMReference
from convnlp.tasks.rows import TEXT, TOKEN_IDS, signature


class PrefixLMAnswers(Answers):
    """Continued texts and ids, by greedy decoding; see `Answers`."""

    @property
    def sequence_length(self):
        return self.model.preprocessor.sequence_length

    def preprocess(self, text):
        """Returns whole texts with their end token, as any encoder reads them."""
        tokenizer = self.model.preprocessor.tokenizer
        ids, mask = token_rows([tokenizer.ragged(text)], self.sequence_length, tokenizer.end_token_id)
        return {"token_ids": ids, "padding_mask": mask}

    def signatures(self, max_length=None):
        if max_length is None:
            max_length = self.sequence_length // 2
        if max_length < 1:
            raise ValueError(f"`max_length` must be >= 1. Received: {max_length}")
        lm, prompts = self.model, Prompts(self.model, max_length, self.rows.any_length)

        def generated(rows):
            return tf.ensure_shape(lm.generate_ids(rows["token_ids"], max_length), [None, max_length])

        def from_ids(token_ids):
            return {"generated_ids": generated(prompts.of_ids(token_ids))}

        def generate(text):
            return {"generated_text": lm.continued(text, generated(prompts.of_texts(text)))}

        text_to_text = signature(generate, text=TEXT)
        return {
            "serving_default": text_to_text,
            "generate": text_to_text,
            "ids": signature(from_ids, token_ids=TOKEN_IDS),
        }, prompts

    def reference(self):
        return PrefixLMReference(self.model, self.sequence_length, self.preprocess)


class Prompts:
    """Makes the input of `PrefixLM.generate_ids`, {"token_ids" int32 [B,S]}: the last tokens of texts or ids.

    Args:
        lm: `PrefixLM`.
        max_length: int. N, the most tokens of a continuation, for which a row keeps room.
        any_length: bool. Whether rows may be as short as the longest prompt of the batch.

    Raises:
        ValueError: if `max_length` leaves no room for a prompt.
    """

    def __init__(self, lm, max_length, any_length):
        length = lm.preprocessor.sequence_length
        if max_length >= length:
            raise ValueError(
                f"`max_length` must be below {length}, the length of the rows that the model was trained on, "
                f"which prompt and continuation share. Received: {max_length}"
            )
        self.max_length = length - max_length
        self._lm, self._any_length = lm, any_length

    def of_texts(self, text):
        """Takes texts [B]; adds no end token, since the document goes on."""
        return self.of_ids(self._lm.preprocessor.tokenizer.ragged(text).to_tensor())

    def of_ids(self, token_ids):
        """Takes token ids [B,T] with pads = 0; keeps the last ones, which the output continues."""
        longest = tf.shape(token_ids)[1]
        width = tf.minimum(longest, self.max_length)
        count = tf.reduce_sum(tf.cast(token_ids != 0, tf.int32), axis=1, keepdims=True)  # [B,1]
        index = tf.maximum(count - self.max_length, 0) + tf.range(width)  # [B,width]
        kept = tf.gather(token_ids, tf.minimum(index, longest - 1), batch_dims=1)
        kept = tf.where(index < count, kept, 0)
        if not self._any_length:
            kept = tf.pad(kept, [[0, 0], [0, self.max_length - width]])
        return {"token_ids": kept}
