"""The contract of what a task's model answers once it is exported."""

import abc

import numpy as np
import tensorflow as tf

from convnlp.tasks.reference import largest_error
from convnlp.tasks.rows import EncoderRows


class Answers(abc.ABC):
    """The signatures of a task's model, its one output on the edge, and what both should be.

    Args:
        model: the `model_cls` of the task, with its preprocessor.

    Attributes:
        model: the same.
        rows: `EncoderRows`, what its encoder reads.
        labels: list of str, the names of the classes it chooses from; None where there are none.

    Raises:
        ValueError: if it has no preprocessor.
    """

    labels = None
    takes_pairs = False  # whether `preprocess` takes two texts per example
    text_inputs = ("text",)  # of "serving_default": the texts of an example
    edge_output = "embedding"  # the name of `edge`'s tensor
    takes_threshold = False  # whether `row` does

    def __init__(self, model):
        if model.preprocessor is None:
            raise ValueError("`model` must have a preprocessor: without one its texts cannot be tokenized")
        self.model = model
        self.rows = EncoderRows(model.backbone, self.sequence_length, self.preprocess)

    @property
    @abc.abstractmethod
    def sequence_length(self):
        """L, how many tokens of a text its encoder reads."""

    @abc.abstractmethod
    def preprocess(self, text):
        """Texts [B], or a tuple of two for pairs -> {"token_ids" int32 [B,L], "padding_mask" bool [B,L]}."""

    @abc.abstractmethod
    def signatures(self, max_length=None):
        """What is served besides `embed`, which all models have.

        Args:
            max_length: int >= 1. The bound of generated tokens; None for the model's own, and where the task
                does not generate.

        Returns:
            (dict, name -> `convnlp.tasks.rows.signature`; what has `of_texts`, from texts to the token ids of
            the signature "ids"). No output's size may depend on the other examples of its batch.

        Raises:
            ValueError: if `max_length` is out of range.
        """

    def edge(self, rows):
        """The output [B,N] of the TFLite model for rows of `EncoderRows`; the default is the embedding."""
        return self.rows.embed(rows)

    def request(self, name, texts, rows):
        """What a signature is asked about texts, by the checks of an export and to warm a server up.

        A task whose signatures have inputs of other names than these adds them here.

        Args:
            name: str, the signature.
            texts: list of B str.
            rows: what `signatures` gives beside them.

        Returns:
            dict, name of an input -> array [B,...]. Those that the signature does not have are left out.
        """
        text = tf.constant(texts)
        values = {"text": text, "text_pair": text[::-1], "token_ids": rows.of_texts(text)["token_ids"]}
        return {key: value.numpy() for key, value in values.items()}

    def row(self, answer, threshold=None):
        """What a person reads of one example's answer; the default is the answer.

        Args:
            answer: dict, output of "serving_default" or "pair" -> its value for it, as JSON has it.
            threshold: float in (0, 1), the probability from which a label counts; None for the task's own.
                Only where the class `takes_threshold`.

        Returns:
            dict, name of a column -> None, a str, number or list of such. "scores" is a dict, label ->
            probability.
        """
        return answer

    def compare(self, outputs, expected):
        """How far outputs of `edge` are from others; the default is for embeddings.

        Args:
            outputs: float array [B,N], of a TFLite model.
            expected: the same of the preset.

        Returns:
            dict of floats: "largest_error", the largest difference, and what says more of this task.
        """
        norms = np.linalg.norm(outputs, axis=1) * np.linalg.norm(expected, axis=1)
        cosines = np.sum(outputs * expected, axis=1) / np.maximum(norms, np.finfo(np.float32).tiny)
        return {"largest_error": largest_error(outputs, expected), "lowest_cosine": float(np.min(cosines))}

    @abc.abstractmethod
    def reference(self):
        """The `Reference` that answers are compared with."""
