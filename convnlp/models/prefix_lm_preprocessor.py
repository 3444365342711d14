"""Turns texts into the rows that a `PrefixLM` reads, and token ids back into text."""

import keras
import keras_nlp
import tensorflow as tf

from convnlp.models import arguments
from convnlp.models.checked_preset import TextPreset
from convnlp.models.seq2seq_backbone import Seq2SeqBackbone
from convnlp.models.token_rows import batched, check_length, token_rows, unbatched
from convnlp.models.tokenizer import Tokenizer


@keras.saving.register_keras_serializable(package="convnlp")
class PrefixLMPreprocessor(TextPreset, keras_nlp.models.CausalLMPreprocessor):
    """Turns strings into {"token_ids" int32 [B,L], "padding_mask" bool [B,L]}.

    For `fit`, a row is `tokens </s>`, and its labels are the same row shifted left by one. For `generate`, it
    holds the last tokens of a prompt that leave room for one more, without an end token. An empty prompt is
    the end token alone, which separates documents in training. Departs from keras_nlp's class: there is no
    start token, and the mask comes from lengths, not from id != pad.

    Args:
        tokenizer: a `convnlp.models.Tokenizer`.
        sequence_length: int >= 2. L, prompt and continuation together. Default 128.
        **kwargs: of `keras_nlp.models.Preprocessor`.

    Example: see `PrefixLM`.
    """

    backbone_cls = Seq2SeqBackbone
    tokenizer_cls = Tokenizer

    def __init__(self, tokenizer, sequence_length=128, **kwargs):
        arguments.refuse_unknown(PrefixLMPreprocessor, kwargs, also=("config_file",))
        super().__init__(
            tokenizer, sequence_length=check_length("sequence_length", sequence_length, 2), **kwargs
        )

    def build(self, input_shape):
        self.built = True  # the base class would build a packer with a start token

    def call(self, x, y=None, sample_weight=None, sequence_length=None):
        """As in keras_nlp: `y` and `sample_weight` are made here."""
        text, single = batched(x)
        length = sequence_length or self.sequence_length
        ids, mask = token_rows([self.tokenizer.ragged(text)], length + 1, self.tokenizer.end_token_id)
        weight = tf.cast(mask[:, 1:], tf.float32)
        rows = {"token_ids": ids[:, :-1], "padding_mask": mask[:, :-1]}, ids[:, 1:], weight
        return keras.utils.pack_x_y_sample_weight(*unbatched(rows, single))

    def generate_preprocess(self, x, sequence_length=None):
        """Returns inputs of `PrefixLM.generate`: rows that begin with prompts, of length L by default."""
        text, single = batched(x)
        length = sequence_length or self.sequence_length
        prompts = self.tokenizer.ragged(text)[:, 1 - length :]  # the last tokens
        ids = prompts.to_tensor(shape=[None, length])
        count = tf.cast(prompts.row_lengths(), tf.int32)
        is_first = tf.range(length) == 0
        is_empty = (count == 0)[:, tf.newaxis]
        ids = tf.where(is_empty & is_first, self.tokenizer.end_token_id, ids)
        rows = {"token_ids": ids, "padding_mask": tf.sequence_mask(tf.maximum(count, 1), length)}
        return unbatched(rows, single)

    def generate_postprocess(self, x):
        """Returns `PrefixLM.generate_step`'s outputs as text: a list of str, in a graph a string tensor."""
        kept = tf.where(tf.cast(x["padding_mask"], tf.bool), x["token_ids"], self.tokenizer.pad_token_id)
        return self.tokenizer.detokenize(kept)
