"""Compares the answers of an exported model with the preset's, on texts of the user."""

import dataclasses

import numpy as np
import tensorflow as tf

from convnlp.export.lite import comparison
from convnlp.tasks import task_of


@dataclasses.dataclass(frozen=True)
class Effect:
    """How answers differ.

    Attributes:
        largest: float. The largest difference of a score.
        changed: int. The number of texts with a changed label.
        count: int. The number of texts.
        has_labels: bool. Whether there are labels that can change.
    """

    largest: float
    changed: int
    count: int
    has_labels: bool

    def __str__(self):
        labels = f"; the labels of {self.changed} change" if self.has_labels else ""
        return f"{self.count} texts: scores differ from the preset by at most {self.largest:.2g}{labels}"


def of_answers(found, expected):
    """Returns the `Effect` between two answers, each {output: array [N,...]}."""
    largest, changed, has_labels = 0.0, np.zeros(0, bool), False
    for name, value in expected.items():
        if value.dtype.kind == "f":
            largest = float(np.maximum(largest, np.max(np.abs(found[name] - value))))
            changed = changed if changed.size else np.zeros(len(value), bool)
        else:
            has_labels = True
            differs = (found[name] != value).reshape(len(value), -1).any(axis=1)
            changed = differs | changed if changed.size else differs
    return Effect(largest, int(changed.sum()), len(changed), has_labels)


def of_saved_model(directory, model, token_ids):
    """Returns the `Effect` between the signature "ids" of a SavedModel and its preset.

    Args:
        directory: str or path. The SavedModel.
        model: the preset's model in float32, of a task with `EncoderAnswers`.
        token_ids: int32 [N,L], with pads = 0.
    """
    answers = task_of(model).answers(model)
    loaded = tf.saved_model.load(str(directory))

    def of_export(ids):
        return loaded.signatures["ids"](token_ids=tf.constant(ids))

    of_preset = comparison.runner(answers, answers.answer)
    return of_answers(*(comparison.outputs(run, token_ids) for run in (of_export, of_preset)))
