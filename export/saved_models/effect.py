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
        changed: int. The number of texts for which one of `choices` is another.
        count: int. The number of texts.
        choices: tuple of str. The outputs that are no scores, such as "label", or the places of an answer.
    """

    largest: float
    changed: int
    count: int
    choices: tuple

    def __str__(self):
        names = " or ".join(f"`{name}`" for name in self.choices)
        choices = f"; {names} differs for {self.changed}" if names else ""
        return f"{self.count} texts: scores differ from the preset by at most {self.largest:.2g}{choices}"


def of_answers(found, expected):
    """Returns the `Effect` between two answers, each {output: array [N,...]}."""
    largest, changed, choices = 0.0, np.zeros(0, bool), ()
    for name, value in expected.items():
        if value.dtype.kind == "f":
            largest = float(np.maximum(largest, np.max(np.abs(found[name] - value))))
            changed = changed if changed.size else np.zeros(len(value), bool)
        else:
            choices += (name,)
            differs = (found[name] != value).reshape(len(value), -1).any(axis=1)
            changed = differs | changed if changed.size else differs
    return Effect(largest, int(changed.sum()), len(changed), choices)


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
