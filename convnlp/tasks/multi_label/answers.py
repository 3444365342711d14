"""The answers of an exported classifier of several labels."""

import numpy as np
import tensorflow as tf

from convnlp.models import labels as label_names
from convnlp.tasks.encoder_answers import EncoderAnswers, EncoderReference
from convnlp.tasks.reference import relative_difference

THRESHOLD = 0.5


class MultiLabelAnswers(EncoderAnswers):
    """Gives {"labels" string [B,C], "scores" float [B,C]}; a TFLite file gives scores [B,C]; see `Answers`.

    "scores" holds the probabilities of the labels in order. "labels" holds the name of each label with a
    probability of at least 0.5, and "" in place of the others, so that all examples have equally many.
    """

    edge_output = "probabilities"
    takes_threshold = True

    @property
    def labels(self):
        return label_names.names_of(self.model)

    def answer(self, rows):
        scores = self.edge(rows)
        return {"labels": self.chosen(scores), "scores": scores}

    def chosen(self, scores):
        """Returns the "labels" of scores: [B,C] -> string [B,C]."""
        names = tf.tile([self.labels], [tf.shape(scores)[0], 1])  # [B,C]
        return tf.where(scores >= THRESHOLD, names, "")

    def reference(self):
        return MultiLabelReference(self)

    def row(self, answer, threshold=None):
        """Returns {"labels", "scores"}; the labels are those whose probability reaches the threshold."""
        scores = dict(zip(self.labels, answer["scores"], strict=True))
        threshold = THRESHOLD if threshold is None else threshold
        return {"labels": [name for name, score in scores.items() if score >= threshold], "scores": scores}

    def edge(self, rows):
        return tf.sigmoid(self.model(rows, training=False))

    def compare(self, outputs, expected):
        same = np.mean((outputs >= THRESHOLD) == (expected >= THRESHOLD))
        return {**super().compare(outputs, expected), "same_label": float(same)}


class MultiLabelReference(EncoderReference):
    """The expected answers; labels are compared with the scores beside them.

    Rounding may move a score that is at the threshold to its other side.
    """

    def error(self, name, inputs, outputs):
        """Returns the largest error of a score; infinite if a label does not match its score."""
        if name == "embed":
            return super().error(name, inputs, outputs)
        if not np.array_equal(outputs["labels"], self._answers.chosen(outputs["scores"])):
            return np.inf
        return relative_difference(outputs["scores"], self.edge(inputs))
