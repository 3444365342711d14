"""The contract for the answers of a task's exported model."""

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
        labels: list of str, the names of the classes that it chooses from; None if there are none.

    Raises:
        ValueError: if the model has no preprocessor.
    """

    labels = None
    text_inputs = ("text",)  # inputs of "serving_default" that are the texts of an example
    edge_output = "embedding"  # the name of `edge`'s tensor
    takes_threshold = False  # whether `row` takes a threshold

    def __init__(self, model):
        if model.preprocessor is None:
            raise ValueError("`model` must have a preprocessor: without one its texts cannot be tokenized")
        self.model = model
        self.rows = EncoderRows(model.backbone, self.sequence_length, self.preprocess)

    @property
    @abc.abstractmethod
    def sequence_length(self):
        """L, the number of tokens that its encoder reads of a text."""

    @abc.abstractmethod
    def preprocess(self, text):
        """Turns texts [B], or pairs as a tuple of two, into int32 "token_ids", bool "padding_mask" [B,L]."""

    @abc.abstractmethod
    def signatures(self, max_length=None):
        """Returns what is served besides `embed`, which all models have.

        Args:
            max_length: int >= 1, the most tokens to generate; None for the model's own maximum, and if the
                task does not generate.

        Returns:
            (dict, name -> `convnlp.tasks.rows.signature`; an object whose `of_texts` turns texts into the
            token ids of the signature "ids"). No output's size may depend on the other examples of its batch.

        Raises:
            ValueError: if `max_length` is out of range.
        """

    def explaining(self, num_texts):
        """Returns what explains the answers to texts, or to pairs; by default None: they cannot be explained.

        Args:
            num_texts: int, 1 or 2.

        Returns:
            a `convnlp.tasks.rows.signature` of "text" and, for pairs, "text_pair". It returns the outputs of
            "serving_default", "tokens" and "importances" [B,L]; see `convnlp.prediction.words`.
        """
        return None  # noqa: RET501

    def edge(self, rows):
        """Returns the TFLite model's output [B,N] for rows of `EncoderRows`; by default, the embedding."""
        return self.rows.embed(rows)

    def edge_values(self, outputs):
        """Returns the values whose range bounds the error of a TFLite file; by default, all of the outputs.

        Args:
            outputs: float array [B,N], what `edge` returns.

        Returns:
            float array of any shape, not empty.
        """
        return outputs

    def request(self, name, texts, rows):
        """Returns the request for texts that checks an export, or warms up a server.

        A task whose signatures have inputs of other names than these adds them here.

        Args:
            name: str, the signature.
            texts: list of B str.
            rows: the second value that `signatures` returns.

        Returns:
            dict, name of an input -> array [B,...]. Inputs that the signature does not have are left out.
        """
        text = tf.constant(texts)
        values = {"text": text, "text_pair": text[::-1], "token_ids": rows.of_texts(text)["token_ids"]}
        return {key: value.numpy() for key, value in values.items()}

    def row(self, answer, threshold=None):
        """Returns what a person reads of one example's answer; by default, the answer itself.

        Args:
            answer: dict, output of "serving_default" or "pair" -> its value for the example, as in JSON.
            threshold: float in (0, 1), the probability from which a label counts; None for the task's own.
                Only if the class `takes_threshold`.

        Returns:
            dict, name of a column -> None, a str, a number, or a list of these. "scores" is a dict, label ->
            probability.
        """
        return answer

    def compare(self, outputs, expected):
        """Measures how far outputs of `edge` are from the expected ones; the default is for embeddings.

        Args:
            outputs: float array [B,N], from a TFLite model.
            expected: the same from the preset.

        Returns:
            dict of floats: "largest_error", the largest difference, and others that suit the task.
        """
        norms = np.linalg.norm(outputs, axis=1) * np.linalg.norm(expected, axis=1)
        cosines = np.sum(outputs * expected, axis=1) / np.maximum(norms, np.finfo(np.float32).tiny)
        return {"largest_error": largest_error(outputs, expected), "lowest_cosine": float(np.min(cosines))}

    @abc.abstractmethod
    def reference(self):
        """Returns the `Reference` with which answers are compared."""
