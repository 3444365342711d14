"""An encoder that the objective prefix_lm has trained, as the language model that it is."""

import tensorflow as tf

from convnlp.models import Seq2SeqLMPreprocessor
from convnlp.models.tokenizer import SPACE


class PrefixLM:
    """Continues prompts, greedily, by an encoder alone.

    The prompt is the prefix, which is read from both sides; each further token is predicted from what stands
    before it. In training the end token stands between documents: it ends a continuation, and an empty prompt
    is that token alone. A step computes the whole row again, as in `convnlp.layers.PrefixDecoder`.

    Args:
        backbone: a `Seq2SeqBackbone` without a decoder.
        tokenizer: its `Tokenizer`.
        sequence_length: int >= 2. L, the rows of the training, which prompt and continuation share.
    """

    def __init__(self, backbone, tokenizer, sequence_length):
        self.backbone = backbone
        self.sequence_length = sequence_length
        # For what reads a text whole, as any encoder does: texts of at most L tokens, the end token included.
        self.preprocessor = Seq2SeqLMPreprocessor(tokenizer, sequence_length, max(2, sequence_length // 2))

    @property
    def variables(self):
        """All variables, as of a Keras model."""
        return self.backbone.variables

    def generate_ids(self, token_ids, max_length):
        """The continuations of prompts, as one graph of core ops.

        Args:
            token_ids: int32 [B,S], prompts without an end token; pads (0) stand behind them.
            max_length: int >= 1. N.

        Returns:
            int32 [B,N]: each up to and with its end token, then pads.
        """
        end_token_id = self.preprocessor.tokenizer.end_token_id
        rows, count = self.rows(tf.pad(token_ids, [[0, 0], [0, max_length]]))
        places, steps = tf.range(tf.shape(rows)[1]), tf.range(max_length)
        prefix = places < count[:, None]  # [B,S+N]

        def unfinished(index, rows, generated, finished):
            return tf.logical_and(index < max_length, tf.logical_not(tf.reduce_all(finished)))

        def step(index, rows, generated, finished):
            length = count + index  # [B]
            mask = places < length[:, None]
            hidden = self.backbone.encode(rows, padding_mask=mask, prefix_mask=prefix)
            last = tf.gather(hidden, length[:, None] - 1, batch_dims=1)  # [B,1,D]
            best = tf.argmax(self.backbone.logits(last)[:, 0], axis=-1, output_type=tf.int32)
            token = tf.where(finished, 0, best)  # [B]
            rows = tf.where(places == length[:, None], token[:, None], rows)
            generated = tf.where(steps == index, token[:, None], generated)
            return index + 1, rows, generated, tf.logical_or(finished, token == end_token_id)

        nothing = tf.zeros_like(count)
        start = (0, rows, tf.tile(nothing[:, None], [1, max_length]), tf.cast(nothing, tf.bool))
        return tf.while_loop(unfinished, step, start)[2]

    def rows(self, token_ids):
        """Prompts as the encoder reads them: int32 [B,S], S >= 1, and how many tokens each has, int32 [B]."""
        count = tf.reduce_sum(tf.cast(token_ids != 0, tf.int32), axis=1)
        is_first = tf.range(tf.shape(token_ids)[1]) == 0
        is_empty = tf.logical_and(is_first, count[:, None] == 0)
        token_ids = tf.where(is_empty, self.preprocessor.tokenizer.end_token_id, token_ids)
        return token_ids, tf.maximum(count, 1)

    def continued(self, text, token_ids):
        """Texts [B] without the white space at their ends, and what token ids [B,N] add to them."""
        text = tf.strings.regex_replace(text, r"\s+$", "")  # which the tokenizer leaves out too
        added = tf.strings.reduce_join(self.preprocessor.tokenizer.pieces(token_ids), axis=-1)
        added = tf.strings.regex_replace(added, SPACE, " ")
        return tf.where(text == "", tf.strings.regex_replace(added, "^ ", ""), tf.strings.join([text, added]))


class Prompts:
    """What `PrefixLM.generate_ids` reads, {"token_ids" int32 [B,S]}: the last tokens of texts or of ids.

    Args:
        lm: `PrefixLM`.
        max_length: int. N, the bound of a continuation, for which a row keeps room.
        any_length: bool. Whether rows may be as short as the longest prompt of the batch.

    Raises:
        ValueError: if `max_length` leaves no room for a prompt.
    """

    def __init__(self, lm, max_length, any_length):
        if max_length >= lm.sequence_length:
            raise ValueError(
                f"`max_length` must be below {lm.sequence_length}, the length of the rows that the model was "
                f"trained on, which prompt and continuation share. Received: {max_length}"
            )
        self.max_length = lm.sequence_length - max_length
        self._lm, self._any_length = lm, any_length

    def of_texts(self, text):
        """Texts [B], without an end token: a document that goes on."""
        return self.of_ids(self._lm.preprocessor.tokenizer.ragged(text).to_tensor())

    def of_ids(self, token_ids):
        """Token ids [B,T] with pads = 0. The last ones stay: what follows continues them."""
        longest = tf.shape(token_ids)[1]
        width = tf.minimum(longest, self.max_length)
        count = tf.reduce_sum(tf.cast(token_ids != 0, tf.int32), axis=1, keepdims=True)  # [B,1]
        index = tf.maximum(count - self.max_length, 0) + tf.range(width)  # [B,width]
        kept = tf.gather(token_ids, tf.minimum(index, longest - 1), batch_dims=1)
        kept = tf.where(index < count, kept, 0)
        if not self._any_length:
            kept = tf.pad(kept, [[0, 0], [0, self.max_length - width]])
        return {"token_ids": kept}
