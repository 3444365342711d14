"""Regression: predicts a number for a text or a pair of texts."""

import dataclasses
from typing import ClassVar

import tensorflow as tf

from convnlp.data import Number, sources
from convnlp.models import TextRegressor, linear_head
from convnlp.tasks import scores
from convnlp.tasks.pooled_head import PooledHeadTask
from convnlp.tasks.regression import review
from convnlp.tasks.regression.answers import RegressionAnswers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Regression(PooledHeadTask):
    """Predicts a number for a text, or a pair, by a `TextRegressor`.

    The loss is the mean squared error in units of `scale`, so that the recipe fits numbers of any size.

    Args:
        mean: float, mean of the numbers to learn. Default 0.
        scale: float, their standard deviation. Default 1.
        **kwargs: arguments of `PooledHeadTask`; the label is a `Number`.
    """

    name: ClassVar[str] = "regression"
    model_cls: ClassVar[type] = TextRegressor
    fits_head: ClassVar[bool] = True
    best: ClassVar[tuple] = ("valid/loss", "min")
    metrics: ClassVar[tuple] = ("pearson", "spearman", "mae", "rmse")
    edge_metrics: ClassVar[tuple] = metrics
    scored_by: ClassVar[tuple] = ("texts", "label")

    mean: float = 0.0
    scale: float = 1.0

    @classmethod
    def from_config(cls, config, tokenizer, train):
        label = Number(config.task.label_field)
        found = sources.numbers(train, label).astype("float64")
        return cls(
            label=label,
            mean=float(found.mean()),
            scale=float(found.std()) or 1.0,
            **cls._arguments_of(config, tokenizer),
        )

    @classmethod
    def from_model(cls, model, source, fields):
        arguments = cls._arguments_from(model, fields)
        return cls(label=Number(fields.label), mean=model.mean, scale=model.scale, **arguments)

    @classmethod
    def answers(cls, model):
        return RegressionAnswers(model)

    def _model_arguments(self):
        return {"mean": self.mean, "scale": self.scale}

    def _losses(self, model, outputs, labels, weights):
        squares = tf.square((outputs[:, 0] - labels) / self.scale)
        return {"loss_sum": tf.reduce_sum(squares * weights), "weight": tf.reduce_sum(weights)}

    def linear_heads(self, features, labels, penalties):
        return linear_head.fit_numbers(features, (labels - self.mean) / self.scale, penalties)

    def head_rank(self, outputs, labels):
        return (-scores.of_numbers(self._numbers(outputs)[:, 0], labels)["rmse"],)

    def fitted(self, model, found, features, fold_of, penalties):
        model, chosen, outputs = super().fitted(model, found, features, fold_of, penalties)
        return model, chosen, self._numbers(outputs)

    def scores(self, model, found, batch_size=32, outputs=None):
        outputs = self.outputs(model, found, batch_size) if outputs is None else outputs
        return scores.of_numbers(outputs[:, 0], found.labels)

    def review(self, model, found, batch_size=32, outputs=None, is_own=True):
        outputs = self.outputs(model, found, batch_size) if outputs is None else outputs
        return review.review(self.tokenizer, found, outputs[:, 0])

    def _numbers(self, outputs):
        """Returns the numbers that the outputs of a `head` stand for, in the same shape."""
        return outputs * self.scale + self.mean

    def edge_scores(self, outputs, found):
        found = scores.of_numbers(outputs[:, 0], found.labels)
        return {name: found[name] for name in self.edge_metrics}
