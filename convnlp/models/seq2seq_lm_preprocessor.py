"""Turns source and target texts into what an encoder-decoder reads, and token ids back into text."""

import keras
import keras_nlp
import tensorflow as tf

from convnlp.models import arguments
from convnlp.models.checked_preset import TextPreset
from convnlp.models.seq2seq_backbone import Seq2SeqBackbone
from convnlp.models.token_rows import batched, check_length, token_rows, unbatched
from convnlp.models.tokenizer import Tokenizer


@keras.saving.register_keras_serializable(package="convnlp")
class Seq2SeqLMPreprocessor(TextPreset, keras_nlp.models.Seq2SeqLMPreprocessor):
    """Turns {"encoder_text", "decoder_text"} into (x, y, sample_weight) of the fixed lengths S and T.

    x holds "encoder_token_ids" [B,S] (`tokens </s>`), "decoder_token_ids" [B,T] (start token, then the target
    shifted right by one) and their masks; y [B,T] is the target, `tokens </s>`, and sample_weight its mask.
    The start token has the id of pad, so all masks come from lengths, not from id != pad.
    A tuple of two texts as "encoder_text" is a pair, `first </s> second </s>`.

    Args:
        tokenizer: a `convnlp.models.Tokenizer`.
        encoder_sequence_length: int >= 2. S. Default 512.
        decoder_sequence_length: int >= 2. T. Default 128.
        **kwargs: of `keras_nlp.models.Preprocessor`.

    Example: see `Seq2SeqLM`.
    """

    backbone_cls = Seq2SeqBackbone
    tokenizer_cls = Tokenizer

    def __init__(self, tokenizer, encoder_sequence_length=512, decoder_sequence_length=128, **kwargs):
        arguments.refuse_unknown(Seq2SeqLMPreprocessor, kwargs, also=("config_file",))
        super().__init__(
            tokenizer,
            encoder_sequence_length=check_length("encoder_sequence_length", encoder_sequence_length, 2),
            decoder_sequence_length=check_length("decoder_sequence_length", decoder_sequence_length, 2),
            **kwargs,
        )

    def build(self, input_shape):
        self.built = True  # the base class would build packers that treat the pad id as special

    def call(
        self,
        x,
        y=None,
        sample_weight=None,
        *,
        encoder_sequence_length=None,
        decoder_sequence_length=None,
        sequence_length=None,
    ):
        """As in keras_nlp: `y` and `sample_weight` are made here; `sequence_length` is the decoder's.

        Args:
            x: dict with "encoder_text" (a tuple of two for pairs) and "decoder_text": a str, or N of them.
            y: ignored.
            sample_weight: ignored.
            encoder_sequence_length: int, S. Default: that of the preprocessor.
            decoder_sequence_length: int, T. Default: `sequence_length`, or that of the preprocessor.
            sequence_length: int, the same.

        Returns:
            (dict of "encoder_token_ids" [N,S], "decoder_token_ids" [N,T] and their "..._padding_mask",
            targets int32 [N,T], weights float32 [N,T]); without N for a single example.

        Raises:
            ValueError: if x lacks one of the two.
        """
        if not isinstance(x, dict) or {"encoder_text", "decoder_text"} - set(x):
            raise ValueError(f'`x` must be a dict with "encoder_text" and "decoder_text". Received: {x!r}')
        source, source_mask, single = self._rows(
            x["encoder_text"], encoder_sequence_length or self.encoder_sequence_length
        )
        target, target_mask, _ = self._rows(
            x["decoder_text"], decoder_sequence_length or sequence_length or self.decoder_sequence_length
        )
        rows = {
            "encoder_token_ids": source,
            "encoder_padding_mask": source_mask,
            "decoder_token_ids": self._shift_right(target),
            "decoder_padding_mask": target_mask,
        }
        rows, target, weight = unbatched((rows, target, tf.cast(target_mask, tf.float32)), single)
        return keras.utils.pack_x_y_sample_weight(rows, target, weight)

    def generate_preprocess(
        self, x, *, encoder_sequence_length=None, decoder_sequence_length=None, sequence_length=None
    ):
        """Returns inputs of `Seq2SeqLM.generate`.

        Args:
            x: str, list of str or string tensor [B], or a tuple of two of them for pairs; or a dict with
                "encoder_text" and, if the output is to begin with a given text, "decoder_text".
            encoder_sequence_length: int. S. Defaults to the preprocessor's.
            decoder_sequence_length: int. T, with start and end token. Defaults to the preprocessor's.
            sequence_length: int. Another name for `decoder_sequence_length`.

        Returns:
            dict of "encoder_token_ids" [B,S], "decoder_token_ids" [B,T] (start token, prompt, pads) and
            their masks.
        """
        source, prompt = (x["encoder_text"], x.get("decoder_text")) if isinstance(x, dict) else (x, None)
        ids, mask, single = self._rows(source, encoder_sequence_length or self.encoder_sequence_length)
        prompt = tf.fill(tf.shape(ids)[:1], "") if prompt is None else prompt
        start, start_mask, _ = self._rows(
            prompt, decoder_sequence_length or sequence_length or self.decoder_sequence_length
        )
        start = tf.where(start == self.tokenizer.end_token_id, self.tokenizer.pad_token_id, start)
        rows = {
            "encoder_token_ids": ids,
            "encoder_padding_mask": mask,
            # With the start token in front, the mask ends where the prompt's end token was.
            "decoder_token_ids": self._shift_right(start),
            "decoder_padding_mask": start_mask,
        }
        return unbatched(rows, single)

    def generate_postprocess(self, x):
        """Returns `Seq2SeqLM.generate_step`'s outputs as text: a list of str, in a graph a string tensor."""
        pad = self.tokenizer.pad_token_id
        return self.tokenizer.detokenize(tf.where(x["decoder_padding_mask"], x["decoder_token_ids"], pad))

    def _rows(self, text, length):
        texts = text if isinstance(text, tuple) else (text,)
        if len(texts) > 2:
            raise ValueError(f"A text must be one or a tuple of two. Received: a tuple of {len(texts)}")
        texts, singles = zip(*map(batched, texts), strict=True)
        rows = token_rows(
            [self.tokenizer.ragged(each) for each in texts], length, self.tokenizer.end_token_id
        )
        return *rows, all(singles)

    def _shift_right(self, token_ids):
        return tf.pad(token_ids[:, :-1], [[0, 0], [1, 0]], constant_values=self.tokenizer.start_token_id)

    def get_config(self):
        return {
            **super().get_config(),
            "encoder_sequence_length": self.encoder_sequence_length,
            "decoder_sequence_length": self.decoder_sequence_length,
        }
