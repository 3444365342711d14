"""Turns a text, or a pair of texts, into the row that a classifier reads."""

import keras
import keras_nlp

from convnlp.models import arguments
from convnlp.models.checked_preset import TextPreset
from convnlp.models.seq2seq_backbone import Seq2SeqBackbone
from convnlp.models.token_rows import batched, check_length, token_rows, unbatched
from convnlp.models.tokenizer import Tokenizer


@keras.saving.register_keras_serializable(package="convnlp")
class TextClassifierPreprocessor(TextPreset, keras_nlp.models.TextClassifierPreprocessor):
    """Turns strings into {"token_ids" int32 [B,L], "padding_mask" bool [B,L]}.

    One text gives `tokens </s>`, a pair `first </s> second </s>`; longer rows are cut (see `token_rows`).
    Everything is graph code: the same in eager calls, `tf.data`, SavedModel and TFLite. Departs from
    keras_nlp's class: there are no start token and no segment ids, and the mask comes from lengths, not from
    id != pad.

    Args:
        tokenizer: a `convnlp.models.Tokenizer`.
        sequence_length: int >= 3. L. Default 128.
        **kwargs: of `keras_nlp.models.Preprocessor`.

    Call arguments:
        x: str, list of str or string tensor [B]; for pairs, a tuple of two of them, passed by name, because
            keras_nlp takes a single positional tuple for (x, y).
        y, sample_weight: passed on unchanged.

    Example: see `TextClassifier`.
    """

    backbone_cls = Seq2SeqBackbone
    tokenizer_cls = Tokenizer
    takes_fields = False  # whether an example may be a dict; see `given_data.check`

    def __init__(self, tokenizer, sequence_length=128, **kwargs):
        arguments.refuse_unknown(TextClassifierPreprocessor, kwargs, also=("config_file",))
        # The base class writes it into its config; here, the longest text is always cut first.
        kwargs.pop("truncate", None)
        super().__init__(
            tokenizer, sequence_length=check_length("sequence_length", sequence_length, 3), **kwargs
        )

    def build(self, input_shape):
        self.built = True  # the base class would build a packer around BERT's special tokens

    def call(self, x, y=None, sample_weight=None):
        texts = x if isinstance(x, tuple) else (x,)
        if len(texts) > 2:
            raise ValueError(f"`x` must be one text or a tuple of two. Received: a tuple of {len(texts)}")
        texts, singles = zip(*map(batched, texts), strict=True)
        token_ids, padding_mask = token_rows(
            [self.tokenizer.ragged(text) for text in texts], self.sequence_length, self.tokenizer.end_token_id
        )
        x = unbatched({"token_ids": token_ids, "padding_mask": padding_mask}, singles[0])
        return keras.utils.pack_x_y_sample_weight(x, y, sample_weight)
