"""Classification: assigns a class to a text or a pair of texts."""

import dataclasses
from typing import ClassVar

import numpy as np
import tensorflow as tf
from absl import logging

from convnlp import losses
from convnlp.data import Label, examples, rules, sources
from convnlp.data.labels import have_order
from convnlp.layers import dropout_seed
from convnlp.layers.hashed_ngrams import MAX_BUCKETS
from convnlp.models import TextClassifier, linear_head
from convnlp.options import option
from convnlp.tasks import scores
from convnlp.tasks.classification import heads, ngrams, review, self_training
from convnlp.tasks.classification.answers import ClassifierAnswers
from convnlp.tasks.classification.teachers import soft_labels
from convnlp.tasks.pooled_head import PooledHeadTask

TAUGHT_SHARE = 0.75  # of the target, if there are teachers

_COUNT = rules.integer(0, MAX_BUCKETS + 1)
_BUCKETS = rules.Rule(f"None, or {_COUNT.text}", lambda value: value is None or _COUNT.holds(value))
_WEIGHT = rules.number("(0, inf)")
_CLASS_WEIGHTS = rules.Rule(
    "None, 'balanced', or a number > 0 for each of some names of classes",
    lambda value: (
        value is None
        or value == "balanced"
        or (isinstance(value, dict) and all(map(_WEIGHT.holds, value.values())))
    ),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Classification(PooledHeadTask):
    """Assigns a class to a text, or a pair, by a `TextClassifier`.

    Args:
        ngram_buckets: int, buckets of `ngrams.join` after training; 0 for none. An option. Default None:
            `ngrams.buckets_for` the classes and texts. A `model_cls` that does not take it has none.
        r_drop: float, see `classification_loss`. An option. Default 0.
        teachers: sequence of str, presets of classifiers with the same classes. The model learns their mean
            answer to a text alongside its label, see `classification_loss`; for a text without one, the class
            that they hold most probable takes its place. An option. Default none.
        class_weights: how much an example of each class counts in training: "balanced" (more for rare
            classes: n / (C n_c) if n_c of n examples have the class), or a dict, name of a class -> float
            > 0, with 1 for classes that it does not name. An option. Default none: all count the same.
        **kwargs: arguments of `PooledHeadTask`; the label is a `Label`.
    """

    name: ClassVar[str] = "classification"
    model_cls: ClassVar[type] = TextClassifier
    fits_head: ClassVar[bool] = True
    teaches_itself: ClassVar[bool] = True
    best: ClassVar[tuple] = ("valid/accuracy", "max")
    metrics: ClassVar[tuple] = ("accuracy", "f1", "f1_macro", "loss")
    share_metrics: ClassVar[tuple] = ("accuracy",)
    config_fields: ClassVar[tuple] = (*PooledHeadTask.config_fields, "label_names", "label_threshold")
    edge_metrics: ClassVar[tuple] = ("accuracy",)
    scored_by: ClassVar[tuple] = ("texts", "label", "label_names", "label_threshold")

    ngram_buckets: int | None = option(None, _BUCKETS)
    r_drop: float = option(0.0, rules.number("[0, inf)"), head=False)
    teachers: tuple = option((), rules.sequence_of(rules.NAME), preset=True, head=False)
    class_weights: object = option(None, _CLASS_WEIGHTS)

    def __post_init__(self):
        super().__post_init__()
        names = list(self.label.names or ())
        given = self.class_weights if isinstance(self.class_weights, dict) else ()
        if unknown := [name for name in given if name not in names]:
            raise ValueError(
                f"`class_weights` must name classes, of {rules.short(names)}. Received: {unknown[0]!r}"
            )

    @classmethod
    def from_config(cls, config, tokenizer, train):
        task = config.task
        names, threshold = tuple(task.label_names), task.label_threshold
        if not names and threshold is not None:
            names = ("0", "1")
        if not names:  # from the whole split: a slice may lack a rare class
            names = sources.label_names(train.whole, task.label_field)
        has_order = have_order(names, task.label_names)
        label = Label(task.label_field, names=names, threshold=threshold, has_order=has_order)
        return cls(label=label, **cls._arguments_of(config, tokenizer))

    @classmethod
    def from_model(cls, model, source, fields):
        names = fields.label_names or model.labels or ()
        label = Label(
            fields.label,
            num_classes=model.num_classes,
            names=names or None,
            threshold=fields.label_threshold,
            has_order=have_order(names, fields.label_names or fields.has_order),
        )
        return cls(label=label, **cls._arguments_from(model, fields))

    @classmethod
    def answers(cls, model):
        return ClassifierAnswers(model)

    @property
    def known_metrics(self):
        return tuple(name for name in self.metrics if name != "f1" or self.label.num_classes == 2)

    def read(self, source, training=False):
        return self._read(source, self.label)

    def read_unlabelled(self, source):
        return self._read(source, None)

    def _read(self, source, label):
        arguments = self.tokenizer, label, self.sequence_length, self.text_fields
        return read_classification(source, *arguments, keep_texts=self.has_teachers)

    @property
    def has_teachers(self):
        return bool(self.teachers)

    def for_training(self, found, unlabelled=None):
        if not self.has_teachers:
            return self._weighed(found)
        parts = [found] if unlabelled is None else [found, unlabelled]
        texts = tuple([text for part in parts for text in part.texts[field]] for field in self.text_fields)
        answers = soft_labels(self.teachers, texts, self.label.names)
        taught = dataclasses.replace(found, soft_labels=answers[: len(found)], texts={})
        if unlabelled is not None:
            answers = answers[len(found) :]
            labels = answers.argmax(axis=1).astype(found.labels.dtype)
            taught = taught.followed_by(
                dataclasses.replace(unlabelled, labels=labels, soft_labels=answers, texts={})
            )
        return self._weighed(taught)

    def _model_arguments(self):
        return {"num_classes": self.label.num_classes, "labels": list(self.label.names)}

    def trained(self, model, found, held_out, learns=False):
        if not (num_buckets := self._num_buckets(model, found)):
            return model, model
        return ngrams.join(model, num_buckets, found, self._weighed(held_out), learns)

    def _weighed(self, found):
        if self.class_weights is None:
            return found
        return dataclasses.replace(found, weights=self._weights(found.labels))

    def _weights(self, labels):
        """Returns how much each of n examples counts, by its label: float32 [n]; None if all are equal."""
        if self.class_weights is None:
            return None
        return class_weights(self.class_weights, self.label.names, labels)[labels]

    def _num_buckets(self, model, found):
        given = self.ngram_buckets
        number = ngrams.buckets_for(self.label.num_classes, found) if given is None else given
        if number and not ngrams.takes(model):
            logging.warning("no n-grams are joined: %s takes no `ngram_buckets`", type(model).__name__)
            return 0
        return number

    def loss(self, model):
        return classification_loss(model, self.r_drop)

    def linear_heads(self, features, labels, penalties):
        weights = self._weights(labels)
        return linear_head.fit(features, labels, self.label.num_classes, penalties, weights)

    def fitted(self, model, found, features, fold_of, penalties, unlabelled=None):
        """As in `Task`, joined to a linear classifier on n-grams: the logits are a z + b u, see `ngrams`.

        The penalties of both, a and b minimise the loss on the held-out examples; see `heads`. If there are
        texts without labels, both also learn from them, by `self_training.teach`. `class_weights` count
        in each fit, and in no choice.
        """
        parts = [heads.Part("", features, self.linear_heads, penalties)]
        if num_buckets := self._num_buckets(model, found):
            layer = ngrams.adapted(num_buckets, self.label.num_classes, found)
            counts = ngrams.features(layer, found)
            parts.append(heads.Part("ngram_", counts, self._ngram_heads, ngrams.PENALTIES))
        best, chosen = heads.fit(parts, found.labels, fold_of), {}
        if unlabelled is not None:
            texts, more = unlabelled
            more = [more, *([ngrams.features(layer, texts)] if num_buckets else [])]
            best, report = self_training.teach(best, parts, found.labels, fold_of, more)
            chosen = {"self_training": report}
        if num_buckets:
            model = ngrams.joined(model, layer, *best.weights, best.shares)
        else:
            model.head.set_weights([best.shares[0] * values for values in best.weights[0]])
        return model, best.chosen | chosen, best.outputs

    def _ngram_heads(self, counts, labels, penalties):
        share = ngrams.ratio_share_for(self.label.num_classes)
        weights = self._weights(labels)
        return ngrams.fit(counts, labels, self.label.num_classes, penalties, weights, share)

    def scores(self, model, found, batch_size=32, outputs=None):
        outputs = self.outputs(model, found, batch_size) if outputs is None else outputs
        return scores.of_logits(outputs, found.labels)

    def review(self, model, found, batch_size=32, outputs=None, is_own=True):
        outputs = self.outputs(model, found, batch_size) if outputs is None else outputs
        return review.review(model, found, outputs, explains=is_own)

    def mistakes(self, model, found, outputs):
        return review.mistakes(model, found, outputs)

    def edge_scores(self, outputs, found):
        return {"accuracy": float(np.mean(outputs.argmax(axis=1) == found.labels))}


def class_weights(given, names, labels):
    """Returns how much an example of each class counts.

    Args:
        given: "balanced", or dict, name of one of the classes -> float; see `Classification`.
        names: sequence of C str.
        labels: int array [n], the classes of the examples.

    Returns:
        float32 array [C].

    Example:
    >>> class_weights("balanced", ("bad", "good"), np.array([0, 1, 1, 1])).tolist()
    [2.0, 0.6666666865348816]
    >>> class_weights({"bad": 3}, ("bad", "good"), np.array([0, 1])).tolist()
    [3.0, 1.0]
    """
    if given == "balanced":
        counts = np.bincount(labels, minlength=len(names))
        return (len(labels) / (len(names) * np.maximum(counts, 1))).astype("float32")
    return np.array([given.get(name, 1.0) for name in names], "float32")


def read_classification(source, tokenizer, label, sequence_length, text_fields=("text",), keep_texts=False):
    """Reads texts, or pairs of texts, with a class.

    Args:
        source: `Source`.
        tokenizer: has `tokenize` and `end_token_id`.
        label: `Label`.
        sequence_length: int, L. The end token follows each text, also in pairs. If an example does not fit,
            its longer text is cut; the number of such examples is logged.
        text_fields: tuple of one or two strings. Defaults to `("text",)`.
        keep_texts: bool, whether to keep the texts beside their tokens. Default False.

    Returns:
        `examples.Examples` with one column.

    Raises:
        SourceError: if the source or any of its examples is wrong.
        ValueError: if `sequence_length` has no room for a token of each text.

    Example:
    >>> _ = open("days.jsonl", "w").write(json.dumps({"text": "A fine day.", "label": 1}))
    >>> found = read_classification(Source("jsonl:days.jsonl"), tokenizer, Label(num_classes=2), 8)
    >>> len(found), found.labels
    (1, array([1]))
    """
    rows = [examples.Rows(tuple(text_fields), sequence_length)]
    return examples.load(source, tokenizer, rows, label=label, keep_texts=keep_texts)


def classification_loss(classifier, r_drop=0.0):
    """Returns the softmax cross-entropy of the label; examples of weight 0 (padding of a batch) do not count.

    With R-Drop, each example goes through the model twice, with different units dropped, and the two answers
    p and q are drawn together:

        loss = (CE(p) + CE(q)) / 2 + r_drop (KL(p||q) + KL(q||p)) / 4

    A step then takes twice the time. Source: Liang et al. 2021, equations 2 and 3,
    https://arxiv.org/abs/2106.14448. Departs from it: everything is halved, so that the same learning rate
    fits.

    If a batch has a `soft_label` s, the answer of other classifiers, the target of training is
    0.25 onehot(label) + 0.75 s instead of the label alone. Source: Hinton, Vinyals and Dean, 2015,
    https://arxiv.org/abs/1503.02531. Departs from it: a temperature of 1.

    Args:
        classifier: function of {"token_ids", "padding_mask"} that returns logits [B,C].
        r_drop: float, at least 0. Weight of the divergence; 0 for one pass. Only in training.

    Returns:
        `loss_fn(batch, seed, training=True)` for `convnlp.training.loop`.
    """

    def loss_fn(batch, seed, training=True):
        is_twice = training and r_drop > 0
        if is_twice:
            batch = {name: tf.concat([value, value], 0) for name, value in batch.items()}
        inputs = {name: batch[name] for name in ("token_ids", "padding_mask")}
        labels, weights = batch["label"], batch["weight"]
        with dropout_seed(seed):
            logits = classifier(inputs, training=training)
        loss_sum, weight = losses.cross_entropy(logits, labels, weights)
        if training and "soft_label" in batch:
            soft_sum = losses.soft_cross_entropy(logits, batch["soft_label"], weights)
            loss_sum = (1 - TAUGHT_SHARE) * loss_sum + TAUGHT_SHARE * soft_sum
        hits = losses.hits(logits, labels, weights)
        if is_twice:
            loss_sum, weight, hits = loss_sum / 2, weight / 2, hits / 2
            loss_sum += r_drop / 4 * losses.divergence(*tf.split(logits, 2), tf.split(weights, 2)[0])
        return {"loss_sum": loss_sum, "weight": weight, "accuracy": (hits, weight)}

    return loss_fn
