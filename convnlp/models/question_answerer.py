"""A model that answers questions with a span of a text."""

import keras
import keras_nlp
import numpy as np
import tensorflow as tf

from convnlp.layers import Dropout, QuestionSummary, SpanPointers
from convnlp.layers.checks import require_rate
from convnlp.layers.pair_segments import PairSegments
from convnlp.models import answer_places, arguments, arrays, given_data
from convnlp.models.best_spans import LOWEST, best_spans
from convnlp.models.pooled_encoder import PooledEncoder, token_inputs
from convnlp.models.question_answerer_preprocessor import QuestionAnswererPreprocessor
from convnlp.models.reading import mixes_any_length, shortened
from convnlp.models.token_rows import text_batches
from convnlp.models.tokenizer import Tokenizer

# Windows that are read at once: few enough to bound the memory, and enough to keep some cores busy.
_WINDOWS_A_STEP = 32


@keras.saving.register_keras_serializable(package="convnlp")
class QuestionAnswerer(PooledEncoder, keras_nlp.models.Task):
    """Puts two pointers on the encoder: logits [B,2,T] of where an answer begins and ends in its context.

    A question and its context share a row, `question </s> context </s>`. An encoder whose layers cannot
    relate the two, such as a convolution beyond its receptive field, points at anything that looks like an
    answer; `question_summary` tells it what is asked. The answer is the most probable span of at most
    `max_answer_length` tokens (see `best_spans`), over all windows of a context that is longer than a row. It
    is copied from the context character by character, from its first token to its last. There is no answer
    "none": a context with any token has an answer. The head computes in float32, whatever the backbone does.

    Source: Devlin et al., 2019, section 4.2, https://arxiv.org/abs/1810.04805; see `SpanPointers`,
    `context_windows` and `QuestionSummary` for departures from it.

    Args:
        backbone: a `Seq2SeqBackbone`. One with a decoder is replaced by its `encoder_only()`, a copy.
        preprocessor: a `QuestionAnswererPreprocessor`, or None to feed token ids.
        question_summary: bool. Whether the pointers see a summary of the question beside each token; see
            `convnlp.layers.QuestionSummary`. Default False.
        dropout: float in [0, 1), on the input of the pointers. Default 0.1.
        compile: bool. Default False. `compile()` without arguments uses the mean of both pointers'
            cross-entropies.
        **kwargs: `name` and `trainable` of the Keras model.

    Raises:
        ValueError: if an argument is unknown or out of its range, or if the encoder merges positions.

    Example:
    ```python
    import io, sentencepiece
    from convnlp.models import QuestionAnswerer, QuestionAnswererPreprocessor, Seq2SeqBackbone, Tokenizer
    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat", "the dog ran"]), model_writer=proto, vocab_size=16,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2)
    tokenizer = Tokenizer(proto.getvalue())
    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(), num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
    preprocessor = QuestionAnswererPreprocessor(tokenizer, sequence_length=32, max_answer_length=4)
    model = QuestionAnswerer(backbone, preprocessor)
    model.compile()  # the recipe of configs/finetune_classification.py
    model.fit((["who ran", "who sat"], ["the dog ran", "the cat sat"]), [["the dog", "dog"], ["the cat"]],
              verbose=0)
    (answer,) = model.predict(["who ran"], ["the dog ran"])
    assert answer["answer"] == "the dog ran"[answer["start"]:answer["end"]]
    ```
    """

    pipeline_tag = "question-answering"  # in the model card, in the terms of the Hugging Face hub
    example = 'model.predict(["a question"], ["a text"])'
    preprocessor_cls = QuestionAnswererPreprocessor
    head_arguments = ("question_summary",)
    _gives_logits = True

    @staticmethod
    def check_backbone(backbone):
        """Raises ValueError if the encoder of a backbone merges positions: a pointer needs each token."""
        if backbone.encoder.pool_factor > 1:
            raise ValueError(
                "`backbone` must not merge positions: an answer is pointed at token by token. "
                f"Received: pool_size={backbone.encoder.pool_sizes}"
            )

    def __init__(
        self, backbone, preprocessor=None, question_summary=False, dropout=0.1, compile=False, **kwargs
    ):
        arguments.refuse_unknown(QuestionAnswerer, kwargs)

        # === Layers ===
        require_rate("dropout", dropout)
        self._take(backbone, preprocessor)
        self.check_backbone(self.backbone)
        end = Tokenizer.end_token_id
        self.segments = PairSegments(end, name="pair_segments")
        self.question_pooling = QuestionSummary(self.backbone.hidden_dim, end) if question_summary else None
        self.head_dropout = Dropout(dropout, dtype="float32", name="head_dropout")
        self.head = SpanPointers(end, LOWEST, name="head")

        # === Functional model ===
        inputs = token_inputs()
        token_ids, mask = inputs["token_ids"], inputs["padding_mask"]
        encoded = self.backbone({"encoder_token_ids": token_ids, "encoder_padding_mask": mask})
        x, segments = encoded["encoder_sequence_output"], self.segments(token_ids, mask)
        if question_summary:
            x = self.question_pooling(x, token_ids, segments)
        outputs = self.head(self.head_dropout(x), token_ids, segments)
        super().__init__(inputs=inputs, outputs=outputs, compile=False, **kwargs)

        # === Config ===
        self.question_summary = question_summary
        self.dropout = dropout
        self._any_length = mixes_any_length(self.backbone)
        self._answer = None
        self._prepare(compile)

    def compile(self, optimizer="auto", loss="auto", **kwargs):
        """As for a `TextClassifier`; the loss "auto" is the mean of both pointers' cross-entropies."""
        self._drop_graphs()
        if isinstance(loss, str) and loss == "auto":
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        super().compile(optimizer=optimizer, loss=loss, **kwargs)

    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        sample_weight=None,
        validation_data=None,
        validation_split=None,
        **kwargs,
    ):
        """As in keras_nlp, for questions with their contexts, and their answers; `evaluate` takes the same.

        Here, an example is one row, the window that holds its answer; `convnlp finetune` also trains on the
        other windows of a long context.

        Args:
            x: a tuple of questions and contexts, lists of N str, arrays or columns of pandas; or a data set
                of ((questions, contexts), bytes), with int [B,2] as the preprocessor takes them.
            y: list of N answers, each a str or a list of acceptable answers, of which the model learns the
                first that occurs in the context; see `answer_places.find`.
            batch_size: as in keras_nlp.
            sample_weight: as in keras_nlp.
            validation_data: as in keras_nlp, with `x` and `y` as above.
            validation_split: as in keras_nlp.
            **kwargs: as in keras_nlp.

        Raises:
            ValueError: if no answer of an example occurs in its context, or if there is no example.
        """
        return super().fit(x, y, batch_size, sample_weight, validation_data, validation_split, **kwargs)

    def _targets(self, x, y):
        return _byte_spans(x, y)

    def predict(self, questions, contexts=None, batch_size=32, verbose="auto"):
        """Returns the answers to questions.

        Args:
            questions: list of N str; or a tuple of questions and contexts, as for `fit`.
            contexts: list of N str, the texts to find the answers in.
            batch_size: int, examples per batch. Default 32.
            verbose: ignored; nothing is printed.

        Returns:
            list of N dicts: "answer", a str; "start" and "end", its place: `context[start:end]`; "score", the
            product of the probabilities of its first and its last token.

        Raises:
            ValueError: if the numbers of contexts and questions differ, one is not a text, `batch_size` is
                less than 1, or there is no preprocessor.
        """
        if contexts is None and isinstance(questions, tuple) and len(questions) == 2:
            questions, contexts = questions
        questions, contexts = (
            given_data.listed(texts, name)
            for texts, name in ((questions, "questions"), (contexts, "contexts"))
        )
        if len(questions) != len(contexts):
            raise ValueError(
                "`contexts` must be as many as the questions. "
                f"Received: {len(contexts)} contexts, {len(questions)} questions"
            )
        if self.preprocessor is None:
            raise ValueError("`predict` needs a preprocessor: without one texts cannot be tokenized")
        self._drop_graphs_without_lora()
        if self._answer is None:
            text = tf.TensorSpec([None], tf.string)
            self._answer = tf.function(self.answer, input_signature=[text, text], autograph=False)
        found = []
        for (question, context), count in text_batches((questions, contexts), batch_size):
            answers = self._answer(tf.constant(question), tf.constant(context))
            answers = {name: value.numpy()[:count].tolist() for name, value in answers.items()}
            found += [
                {**dict(zip(answers, each, strict=True)), "answer": each[0].decode()}
                for each in zip(*answers.values(), strict=True)
            ]
        return found

    def _drop_graphs(self):
        super()._drop_graphs()
        self._answer = None

    def answer(self, question, context):
        """Returns answers in a graph, as exported models do.

        Args:
            question: string tensor [B], UTF-8.
            context: string tensor [B].

        Returns:
            {"answer" string [B], the bytes of the context; "start" and "end" int32 [B], its place in
            characters (code points); "score" float32 [B]}. Of windows with the same score, the first counts.
            If the context has no tokens, the answer is "", at 0, with score 0.
        """
        found, begins, ends = self.preprocessor.windows(question, context)
        first, last, score = self.spans_of_windows(found)  # [W]
        best = tf.gather(tf.math.segment_max(score, found.example), found.example)
        number = tf.range(tf.shape(score)[0])
        number = tf.where(score >= best, number, tf.shape(score)[0] - 1)
        number = tf.math.segment_min(number, found.example)  # [B]

        offset = tf.gather(found.first - found.place, number)
        is_there = tf.gather(found.size, number) > 0
        begin = _at(begins, tf.gather(first, number) + offset, is_there)
        end = _at(ends, tf.gather(last, number) + offset, is_there)
        answer = tf.strings.substr(context, begin, end - begin)
        before = tf.strings.substr(context, tf.zeros_like(begin), begin)
        start = tf.strings.length(before, unit="UTF8_CHAR")
        return {
            "answer": answer,
            "score": tf.gather(score, number),
            "start": start,
            "end": start + tf.strings.length(answer, unit="UTF8_CHAR"),
        }

    def spans_of_windows(self, found):
        """Returns `spans` of `Windows`, in steps of a bounded number of rows."""
        rows = {"token_ids": found.token_ids, "padding_mask": found.padding_mask}
        rows = shortened(rows, self.preprocessor.sequence_length) if self._any_length else rows
        count = tf.shape(found.example)[0]

        def step(start, collected):
            these = {name: values[start : start + _WINDOWS_A_STEP] for name, values in rows.items()}
            places = start + tf.range(tf.shape(these["token_ids"])[0])[:, tf.newaxis]
            collected = [
                tf.tensor_scatter_nd_update(all_of, places, values)
                for all_of, values in zip(collected, self.spans(these), strict=True)
            ]
            return start + _WINDOWS_A_STEP, collected

        empty = [tf.zeros([count], dtype) for dtype in (tf.int32, tf.int32, tf.float32)]
        _, collected = tf.while_loop(
            lambda start, _: start < count,
            step,
            (0, empty),
            parallel_iterations=1,  # more of them would multiply the memory
        )
        return collected

    def spans(self, rows):
        """Returns the best span of each row.

        Args:
            rows: {"token_ids" int32 [W,T], "padding_mask" bool [W,T]}.

        Returns:
            (int32 [W] and int32 [W], the places of its first and last token in the row; float32 [W], its
            score); see `best_spans`.
        """
        is_context = self.is_context(rows)
        return best_spans(self(rows, training=False), is_context, self.preprocessor.max_answer_length)

    def is_context(self, rows):
        """Returns which places of rows are tokens of a context, bool [W,T]."""
        is_second = tf.equal(self.segments(rows["token_ids"], rows["padding_mask"]), 2)
        return is_second & tf.not_equal(rows["token_ids"], Tokenizer.end_token_id)

    def get_config(self):
        return {
            **super().get_config(),
            "question_summary": self.question_summary,
            "dropout": self.dropout,
        }


def _at(ragged, places, is_there):
    """Returns the values int32 [B] of rows [B,(n)] at places [B]; 0 where there is none."""
    values = tf.concat([ragged.flat_values, [0]], axis=0)
    index = tf.cast(ragged.row_starts(), tf.int32) + places
    index = tf.where(is_there, index, tf.shape(values)[0] - 1)
    return tf.gather(values, index)


def _byte_spans(x, y):
    """Returns the bytes of answers in their contexts, int32 [N,2]; leaves all but lists of answers unchanged.

    Args:
        x: as for `QuestionAnswerer.fit`.
        y: the same.

    Raises:
        ValueError: if `x` is not a pair, or if no answer of an example occurs in its context.
    """
    y = _as_array(y)
    if y is None or not len(y) or not isinstance(y[0], str | bytes | list | tuple | np.ndarray):
        return y
    if isinstance(y[0], np.ndarray) and y[0].dtype.kind == "i":
        return y
    if not isinstance(x, tuple) or len(x) != 2 or not len(x[1]) == len(y):
        raise ValueError(
            "`x` must be a tuple of questions and contexts, as many as there are answers. "
            f"Received: {len(y)} answers, x={arrays.in_line(x)}"
        )
    found = []
    for number, (context, answers) in enumerate(zip(_as_array(x[1]), y, strict=True)):
        answers = answers if isinstance(answers, list | tuple | np.ndarray) else [answers]
        texts = [_text(each) for each in answers if isinstance(each, str | bytes)]
        span = answer_places.find(_text(context), texts)
        if span is None:
            raise ValueError(
                f"`y` must hold answers that stand in their context. Received: {answers} of example {number}"
            )
        found.append(span)
    return np.array(found, "int32")


def _as_array(values):
    """Returns a tensor of texts as an array of them, whose entries are bytes; anything else unchanged."""
    return values.numpy() if tf.is_tensor(values) and values.dtype == tf.string else values


def _text(value):
    return value.decode() if isinstance(value, bytes) else str(value)
