"""Turns questions and contexts into the rows that a question answerer reads."""

import keras
import keras_nlp
import tensorflow as tf

from convnlp.models import arguments, context_windows
from convnlp.models.answer_places import token_spans
from convnlp.models.checked_preset import TextPreset
from convnlp.models.seq2seq_backbone import Seq2SeqBackbone
from convnlp.models.token_rows import batched, check_length, token_rows, unbatched
from convnlp.models.tokenizer import Tokenizer


@keras.saving.register_keras_serializable(package="convnlp")
class QuestionAnswererPreprocessor(TextPreset, keras_nlp.models.Preprocessor):
    """Turns questions and contexts into rows `question </s> context </s>`, with windows of long contexts.

    A call returns one row per example, {"token_ids" int32 [B,L], "padding_mask" bool [B,L]}: with labels, the
    window that holds the answer; without labels, the first window. `windows` returns all of them. Everything
    is graph code: the same in eager calls, `tf.data` and SavedModels.

    Args:
        tokenizer: a `convnlp.models.Tokenizer`.
        sequence_length: int >= 6. L. Default 384.
        stride: int >= 1. The most tokens by which a window begins after the one before it; fewer if a span
            of `max_answer_length` tokens could otherwise fall between them. Default 128.
        max_answer_length: int >= 1, at most a quarter of L - 2. The most tokens of an answer. Default 30.
        **kwargs: of `keras_nlp.models.Preprocessor`.

    Call arguments:
        x: a tuple of questions and contexts, lists of str or string tensors [B], or one of each; passed by
            name, as in `TextClassifierPreprocessor`. A single text gives the row `text </s>`.
        y: int [B,2], the bytes of each answer in its context; see `answer_places.find`. They become the
            places of its first and last token in the row; if no window holds the answer, the place of the
            question's end token, twice.
        sample_weight: passed on unchanged.

    Raises:
        ValueError: if an argument is out of its range.

    Example: see `QuestionAnswerer`.
    """

    backbone_cls = Seq2SeqBackbone
    tokenizer_cls = Tokenizer

    def __init__(self, tokenizer, sequence_length=384, stride=128, max_answer_length=30, **kwargs):
        arguments.refuse_unknown(QuestionAnswererPreprocessor, kwargs, also=("config_file",))
        super().__init__(**kwargs)
        self.tokenizer = tokenizer
        self.sequence_length = check_length("sequence_length", sequence_length, 6)
        self.stride = check_length("stride", stride, 1)
        self.max_answer_length = check_length("max_answer_length", max_answer_length, 1)
        if max_answer_length > (sequence_length - 2) // 4:
            raise ValueError(
                "`max_answer_length` must be at most a quarter of sequence_length - 2, so that windows can "
                f"overlap by it. Received: max_answer_length={max_answer_length}, "
                f"sequence_length={sequence_length}"
            )

    def build(self, input_shape):
        self.built = True

    def call(self, x, y=None, sample_weight=None):
        if not isinstance(x, tuple):
            text, is_single = batched(x)
            ids, mask = token_rows(
                [self.tokenizer.ragged(text)], self.sequence_length, self.tokenizer.end_token_id
            )
        elif len(x) == 2:
            (question, is_single), (context, _) = map(batched, x)
            found, begins, ends = self.windows(question, context)
            spans = tf.fill([tf.shape(question)[0], 2], -1)
            if y is not None:
                y = tf.reshape(tf.cast(y, tf.int32), [-1, 2])
                spans = token_spans(begins, ends, y)
            found = found.take(found.one_each(spans))
            ids, mask = found.token_ids, found.padding_mask
            if y is not None:
                y = found._replace(example=tf.range(tf.shape(spans)[0])).labels(spans)
        else:
            raise ValueError(f"`x` must be one text or a tuple of two. Received: a tuple of {len(x)}")
        x = unbatched({"token_ids": ids, "padding_mask": mask}, is_single)
        y = None if y is None else unbatched(y, is_single)
        return keras.utils.pack_x_y_sample_weight(x, y, sample_weight)

    def windows(self, question, context):
        """Returns all windows of contexts.

        Args:
            question: string tensor [B].
            context: string tensor [B].

        Returns:
            (`Windows`; int32 RaggedTensors [B,(tokens)], the byte of its context at which each token begins,
            and the byte before which it ends).
        """
        ids, begins, ends = self.tokenizer.ragged_with_offsets(context)
        return self.windows_of_ids(self.tokenizer.ragged(question), ids), begins, ends

    def windows_of_ids(self, question, context):
        """Returns `Windows` for int32 RaggedTensors [B,(tokens)]."""
        return context_windows.windows(
            question,
            context,
            sequence_length=self.sequence_length,
            stride=self.stride,
            max_answer_length=self.max_answer_length,
            end_token_id=self.tokenizer.end_token_id,
        )

    def get_config(self):
        return {
            **super().get_config(),
            "sequence_length": self.sequence_length,
            "stride": self.stride,
            "max_answer_length": self.max_answer_length,
        }
