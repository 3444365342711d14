"""Extractive question answering: finds the part of a context that answers a question."""

import dataclasses
import hashlib
from typing import ClassVar

import numpy as np
import tensorflow as tf

from convnlp.data import batching, errors, examples, rules, sources
from convnlp.data import fields as data_fields
from convnlp.data.schema import SEVERAL
from convnlp.layers import dropout_seed
from convnlp.models import QuestionAnswerer, QuestionAnswererPreprocessor, Tokenizer, answer_places
from convnlp.options import option
from convnlp.prediction import asking
from convnlp.tasks import scores
from convnlp.tasks.question_answering import review
from convnlp.tasks.question_answering.answers import SpanAnswers
from convnlp.tasks.scored_fields import Fields
from convnlp.tasks.task import Task


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionAnswering(Task):
    """Finds the span of a context that answers a question, by a `QuestionAnswerer`.

    Of the accepted answers, the model learns the first that occurs in the context, at the first place where
    it consists of whole words; SQuAD's "answer_start" is not read. A context that does not fit into a row is
    read in overlapping windows; those without the answer are trained to say "not here". The loss is the mean
    of both pointers' cross-entropies.

    The validation loss and accuracy look at one window per example, the first that holds its answer; the
    scores look at all windows, as the exported model does.

    Args:
        tokenizer: `Tokenizer`.
        sequence_length: int. L, tokens of a row `question </s> context </s>`.
        question_field: str. Defaults to "question".
        context_field: str. Defaults to "context".
        answers_field: str, an answer, or a list of acceptable answers. Defaults to "answers".
        head_dropout: float, the model's. Default 0.
        stride: int, the preprocessor's. An option. Default 128.
        max_answer_length: int, the preprocessor's. An option. Default 30.
        question_summary: bool, the model's. An option. Default False.
    """

    name: ClassVar[str] = "question_answering"
    model_cls: ClassVar[type] = QuestionAnswerer
    best: ClassVar[tuple] = ("valid/span_accuracy", "max")
    takes_group: ClassVar[bool] = True
    metrics: ClassVar[tuple] = tuple(scores.SQUAD)
    share_metrics: ClassVar[tuple] = ("squad_exact_match",)
    found_fields: ClassVar[tuple] = ("question_field", "context_field", "answers_field")
    text_roles: ClassVar[tuple] = ("question_field", "context_field")
    config_fields: ClassVar[tuple] = (*found_fields, "head_dropout")
    scored_by: ClassVar[tuple] = ("texts", "target")

    tokenizer: Tokenizer
    sequence_length: int
    question_field: str = "question"
    context_field: str = "context"
    answers_field: str = "answers"
    head_dropout: float = 0.0
    stride: int = option(128, rules.integer(1))
    max_answer_length: int = option(30, rules.integer(1))
    question_summary: bool = option(False, rules.BOOL)

    def __post_init__(self):
        super().__post_init__()
        self.preprocessor  # noqa: B018 - before anything is read

    @classmethod
    def check_backbone(cls, config, backbone):
        QuestionAnswerer.check_backbone(backbone)
        super().check_backbone(config, backbone)

    @classmethod
    def from_config(cls, config, tokenizer, train):
        task = config.task
        return cls(
            tokenizer=tokenizer,
            sequence_length=config.data.input_length,
            question_field=task.question_field,
            context_field=task.context_field,
            answers_field=task.answers_field,
            head_dropout=task.head_dropout,
            **task.options.to_dict(),
        )

    @classmethod
    def from_model(cls, model, source, fields):
        if len(fields.texts) != 2:
            raise ValueError(
                "`text_fields` must be two fields for a QuestionAnswerer, question and context. "
                f"Received: {list(fields.texts)}"
            )
        preprocessor = model.preprocessor
        question, context = fields.texts
        return cls(
            tokenizer=preprocessor.tokenizer,
            sequence_length=preprocessor.sequence_length,
            question_field=question,
            context_field=context,
            answers_field=fields.target or "answers",
            stride=preprocessor.stride,
            max_answer_length=preprocessor.max_answer_length,
            question_summary=model.question_summary,
        )

    @classmethod
    def scored_fields(cls, model, source, trained, given):
        there, chosen = sources.Sample(source, 1).fields, {"answers_field": given.get("target")}
        chosen |= dict(zip(cls.text_roles, given.get("texts", ()), strict=False))
        names = {}
        for role in cls.found_fields:
            own = trained.get(role)
            names[role] = chosen.get(role) or (own if own in there else data_fields.ROLES[role].default)
        *texts, target = {**names, **data_fields.take(source, names)}.values()
        return Fields(**{"texts": tuple(texts), "target": target, **given})

    @classmethod
    def answers(cls, model):
        return SpanAnswers(model)

    @property
    def preprocessor(self):
        """The `QuestionAnswererPreprocessor` of its models."""
        return QuestionAnswererPreprocessor(
            self.tokenizer, self.sequence_length, self.stride, self.max_answer_length
        )

    def read(self, source, training=False):
        """As in `Task`: returns `Examples` of two columns, whole rows and spans.

        A span is the first and the last token of an answer in its context; it is empty if no answer of at
        most `max_answer_length` tokens occurs there. Examples of one context are a group.
        """
        fields = (self.question_field, self.context_field, self.answers_field)
        blocks = sources.read_blocks(source, fields, several={self.answers_field})
        with errors.unwrapped():
            read = [self._read_block(block) for block in blocks]
        rows, spans, texts = zip(*read, strict=True)
        rows, spans = tf.concat(rows, axis=0), tf.concat(spans, axis=0)  # [n,(tokens)], [n,2]
        columns = ([text for part in column for text in part] for column in zip(*texts, strict=True))
        texts = dict(zip(fields, columns, strict=True))
        length = spans[:, 1] - spans[:, 0] + 1
        usable = (spans[:, 0] >= 0) & (length <= self.max_answer_length)
        count, total = int(tf.reduce_sum(tf.cast(~usable, tf.int32))), len(usable)
        if count:
            examples.warn_of(
                *(source, count, total),
                f"have no answer of at most {self.max_answer_length} tokens that is in their context, and "
                f"{'take no part in training' if training else 'count in the scores alone'}",
            )
        spans = tf.RaggedTensor.from_row_lengths(
            tf.reshape(tf.boolean_mask(spans, usable), [-1]), 2 * tf.cast(usable, tf.int64)
        )
        longest = int(tf.reduce_max(rows.row_lengths()))
        return examples.Examples(
            columns=(rows, spans),
            lengths=(longest + 1, 2),  # windows cut nothing
            texts={} if training else texts,
            groups=np.array([_hash(text) for text in texts[self.context_field]], np.uint64),
        )

    def _read_block(self, block):
        question, context, answers = (
            [text.decode() for text in block[field].numpy()]
            for field in (self.question_field, self.context_field, self.answers_field)
        )
        asked = self.tokenizer.ragged(block[self.question_field]).with_row_splits_dtype(tf.int64)
        tokens, begins, ends = self.tokenizer.ragged_with_offsets(block[self.context_field])
        pairs = zip(context, answers, strict=True)
        found = [answer_places.find(text, answer.split(SEVERAL)) or (0, 0) for text, answer in pairs]
        end = tf.fill([len(question), 1], self.tokenizer.end_token_id)
        rows = tf.concat([asked, end, tokens, end], axis=1)
        return rows, answer_places.token_spans(begins, ends, tf.constant(found)), (question, context, answers)

    def for_training(self, found):
        """Returns all windows of the examples that have a span, a row each, as `Examples`.

        Raises:
            ValueError: if no example has one.
        """
        usable = np.flatnonzero(found.columns[1].row_lengths())
        if not len(usable):
            raise ValueError(
                "`task.answers_field` must hold answers that stand in their contexts. "
                f"Received: task.answers_field={self.answers_field!r}, none in {len(found)} examples"
            )
        windows, spans = self._windows(found.take(usable))
        return self._rows(windows, windows.labels(spans))

    def batches(self, found, batch_size, *, training=False, **order):
        """As in `Task`: batches of what `for_training` returns or, in evaluation, of one window per example.

        In evaluation, examples without a span do not count. The batches are those of
        `convnlp.data.batching.labelled_batches`; their label is the places of the first and the last token,
        int32 [B,2].

        Raises:
            ValueError: if no example has a span.
        """
        if found.labels is None and training:
            found = self.for_training(found)
        elif found.labels is None:
            windows, spans = self._windows(found)
            windows = windows.take(windows.one_each(spans))
            weights = tf.cast(spans[:, 0] >= 0, tf.float32).numpy()
            if not weights.any():  # then no step would be better than another
                raise ValueError(
                    "`data.validation_source` must hold, in `task.answers_field`, answers that stand in "
                    f"their contexts. Received: task.answers_field={self.answers_field!r}, none in "
                    f"{len(found)} examples"
                )
            found = dataclasses.replace(self._rows(windows, windows.labels(spans)), weights=weights)
        return batching.labelled_batches(found, batch_size, training=training, **order)

    def _windows(self, found):
        """Returns `Windows` of examples, and their spans int32 [n,2], -1 where there is none."""
        rows, spans = found.columns
        is_end = tf.cast(tf.equal(rows.values, self.tokenizer.end_token_id), tf.int64)
        before = tf.cumsum(is_end, exclusive=True) - 2 * rows.value_rowids()  # two in each row
        question, context = (
            tf.ragged.boolean_mask(rows, rows.with_values((before == part) & (is_end == 0)))
            for part in (0, 1)
        )
        return self.preprocessor.windows_of_ids(question, context), spans.to_tensor(-1, shape=[None, 2])

    def _rows(self, windows, labels):
        """Returns `Examples` with a row for each window."""
        rows = tf.RaggedTensor.from_tensor(
            windows.token_ids, tf.reduce_sum(tf.cast(windows.padding_mask, tf.int64), axis=1)
        )
        return examples.Examples((rows,), (self.sequence_length,), labels=labels.numpy())

    def model(self, backbone):
        return QuestionAnswerer(
            backbone,
            preprocessor=self.preprocessor,
            question_summary=self.question_summary,
            dropout=self.head_dropout,
        )

    def loss(self, model):
        def loss_fn(batch, seed, training=True):
            inputs = {name: batch[name] for name in ("token_ids", "padding_mask")}
            labels, weights = batch["label"], batch["weight"]  # [B,2], [B]
            with dropout_seed(seed):
                logits = model(inputs, training=training)  # [B,2,L]
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # [B,2]
            found = tf.argmax(logits, axis=2, output_type=tf.int32)
            is_right = tf.cast(tf.reduce_all(tf.equal(found, labels), axis=1), tf.float32)  # [B]
            total = tf.reduce_sum(weights)
            return {
                "loss_sum": tf.reduce_sum(tf.reduce_mean(losses, axis=1) * weights),
                "weight": total,
                "span_accuracy": (tf.reduce_sum(is_right * weights), total),
            }

        return loss_fn

    def scores(self, model, found, batch_size=32, outputs=None):
        each = self.scores_of_each(model, found, batch_size, outputs)
        return {name: float(np.mean(values)) for name, values in each.items()} | {
            "num_examples": float(len(each["squad_f1"]))
        }

    def scores_of_each(self, model, found, batch_size=32, outputs=None):
        """Returns SQuAD's scores of each example, whose means are `scores`: dict of lists of floats."""
        outputs = self.outputs(model, found, batch_size) if outputs is None else outputs
        return self._each_score(found, [answer["answer"] for answer in outputs])

    def review(self, model, found, batch_size=32, outputs=None, is_own=True):
        outputs = self.outputs(model, found, batch_size) if outputs is None else outputs
        each = self.scores_of_each(model, found, batch_size, outputs)
        questions, wanted = found.texts[self.question_field], self._wanted(found)
        return review.review(questions, wanted, outputs, each["squad_exact_match"], each["squad_f1"])

    def outputs(self, model, found, batch_size=32):
        """Returns the model's answers, as exported: list of dicts, "answer" a str and "score" a float."""
        serve = self.answers(model).signatures()[0]["serving_default"]
        texts = (found.texts[field] for field in (self.question_field, self.context_field))
        pairs = [(a.encode(), b.encode()) for a, b in zip(*texts, strict=True)]
        answers = asking.in_batches(serve, ["question", "context"], pairs, batch_size)
        return [{"answer": answer["answer"].decode(), "score": float(answer["score"])} for answer in answers]

    def _wanted(self, found):
        return [text.split(SEVERAL) for text in found.texts[self.answers_field]]

    def _each_score(self, found, answers):
        """Returns each score of each answer, by the best of the acceptable answers: dict of lists."""
        pairs = list(zip(answers, self._wanted(found), strict=True))
        return {
            name: [float(max(score(answer, one) for one in right)) for answer, right in pairs]
            for name, score in scores.SQUAD.items()
        }


def _hash(text):
    """Returns a 64-bit hash of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
