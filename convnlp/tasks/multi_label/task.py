"""Classification of texts that may have any number of labels at once."""

import dataclasses
from typing import ClassVar

import numpy as np
import tensorflow as tf

from convnlp.data import MultiLabel, rules, sources
from convnlp.data.labels import have_order
from convnlp.models import MultiLabelClassifier, linear_head
from convnlp.models import labels as label_names
from convnlp.options import option
from convnlp.tasks import scores
from convnlp.tasks.multi_label import review
from convnlp.tasks.multi_label.answers import MultiLabelAnswers
from convnlp.tasks.pooled_head import PooledHeadTask
from convnlp.tasks.scored_fields import with_label


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiLabelClassification(PooledHeadTask):
    """Assigns any number of labels to a text, or a pair, by a `MultiLabelClassifier`.

    The labels are in `task.label_field`, as a list or a string with separators, or each in a field of its
    own, as 0 or 1; see `convnlp.data.MultiLabel`. The loss is the mean of the labels' binary cross-entropies.

    Args:
        label_fields: sequence of str, one field per label, named like the label. An option. Default none: all
            labels are in `task.label_field`.
        separator: str, between the names in one field. An option. Default "": found in the data.
        **kwargs: arguments of `PooledHeadTask`; the label is a `MultiLabel`.
    """

    name: ClassVar[str] = "multi_label"
    model_cls: ClassVar[type] = MultiLabelClassifier
    fits_head: ClassVar[bool] = True
    best: ClassVar[tuple] = ("valid/f1_micro", "max")
    metrics: ClassVar[tuple] = ("accuracy", "f1_micro", "f1_macro", "loss")
    share_metrics: ClassVar[tuple] = ("accuracy",)
    config_fields: ClassVar[tuple] = (*PooledHeadTask.config_fields, "label_names")
    edge_metrics: ClassVar[tuple] = ("accuracy", "f1_micro")
    scored_by: ClassVar[tuple] = ("texts", "label", "label_names")

    label_fields: tuple = option((), rules.sequence_of(rules.NAME))
    separator: str = option("", rules.STRING)

    @classmethod
    def open_roles(cls, config):
        return ("text_field",) if config.task.options.get("label_fields") else cls.found_fields

    @classmethod
    def from_config(cls, config, tokenizer, train):
        given = config.task.options.to_dict()
        names, field = tuple(config.task.label_names), config.task.label_field
        if fields := tuple(given.get("label_fields", ())):
            label = MultiLabel(fields, names or fields)
        else:
            # From the whole split: a slice may lack a rare label.
            separator = given.get("separator") or None
            if not names:
                names, separator = sources.multi_label_names(train.whole, field, separator)
            has_order = have_order(names, config.task.label_names)
            label = MultiLabel(field, names, separator, has_order=has_order)
        return cls(label=label, **cls._arguments_of(config, tokenizer))

    @classmethod
    def from_model(cls, model, source, fields):
        names = tuple(fields.label_names or label_names.names_of(model))
        if len(names) != model.num_classes:
            raise ValueError(
                f"`label_names` must name the model's {model.num_classes} labels. Received: {list(names)}"
            )
        each = _fields_of_labels(names, fields.options, source)
        has_order = have_order(names, fields.label_names or fields.has_order)
        separator = fields.options.get("separator") or None
        label = MultiLabel(each or fields.label, names, separator, has_order=has_order)
        return cls(label=label, **cls._arguments_from(model, fields))

    @classmethod
    def scored_fields(cls, model, source, trained, given):
        has_own_fields = _fields_of_labels(model.labels, trained.get("options") or {}, source)
        return with_label(source, trained, given, cls.text_roles, finds_label=not has_own_fields)

    @classmethod
    def answers(cls, model):
        return MultiLabelAnswers(model)

    def _model_arguments(self):
        return {"num_classes": len(self.label.names), "labels": list(self.label.names)}

    def _losses(self, model, outputs, labels, weights):
        losses = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, outputs), axis=-1)  # [B]
        found, each = tf.cast(outputs >= 0, tf.float32), weights[:, tf.newaxis]
        hits, of_both = tf.reduce_sum(found * labels * each), tf.reduce_sum((found + labels) * each)
        total = tf.reduce_sum(weights)
        are_right = tf.reduce_all(tf.equal(found, labels), axis=-1)
        return {
            "loss_sum": tf.reduce_sum(losses * weights),
            "weight": total,
            "accuracy": (tf.reduce_sum(tf.cast(are_right, tf.float32) * weights), total),
            "f1_micro": (2 * hits, tf.maximum(of_both, 1e-6)),  # 0 if no label is found and none is there
        }

    def linear_heads(self, features, labels, penalties):
        return linear_head.fit_several(features, labels, penalties)

    def head_rank(self, outputs, labels):
        found = scores.of_several_labels(outputs, labels)
        return found["f1_macro"], -found["loss"]

    def scores(self, model, found, batch_size=32, outputs=None):
        outputs = self.outputs(model, found, batch_size) if outputs is None else outputs
        return scores.of_several_labels(outputs, found.labels)

    def review(self, model, found, batch_size=32, outputs=None, is_own=True):
        outputs = self.outputs(model, found, batch_size) if outputs is None else outputs
        return review.review(self.label.names, found, outputs)

    def edge_scores(self, outputs, found):
        outputs = np.clip(outputs, 1e-7, 1 - 1e-7)
        each = scores.of_several_labels(np.log(outputs) - np.log1p(-outputs), found.labels)
        return {name: each[name] for name in self.edge_metrics}


def _fields_of_labels(names, options, source):
    """Returns the fields that hold one label each.

    Args:
        names: sequence of str, the names of the labels; None if they have none.
        options: dict, as in `Fields`; "label_fields" may name them otherwise than the labels.
        source: `Source`.

    Returns:
        Tuple of str, in the order of the labels; empty if the source has no such fields.
    """
    there = {*sources.Sample(source, 1).fields}
    known = (options.get("label_fields"), names)
    return next((tuple(each) for each in known if each and {*each} <= there), ())
