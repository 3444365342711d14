"""The answers of models with a head on the encoder: the part of the contract that they share."""

import abc

import numpy as np

from convnlp.tasks.answers import Answers
from convnlp.tasks.reference import Reference, full_rows, largest_error, relative_difference
from convnlp.tasks.rows import TEXT, TOKEN_IDS, signature


class EncoderAnswers(Answers):
    """Gives `answer` for texts, pairs and token ids, by a `convnlp.models.PooledEncoder`; see `Answers`."""

    @property
    def sequence_length(self):
        return self.model.preprocessor.sequence_length

    def preprocess(self, text):
        return self.model.preprocessor(text, y=None)  # without `y`, keras_nlp takes a tuple for (x, y)

    @property
    def text_inputs(self):
        """Both texts if the head compares two, since a single one has no answer."""
        return ("text", "text_pair") if self.model.compares_texts else ("text",)

    @abc.abstractmethod
    def answer(self, rows):
        """Returns the answer to rows of `EncoderRows`: dict, name -> tensor [B,...]."""

    def signatures(self, max_length=None):
        rows = self.rows

        def answered(found):
            return rows.answered(self.answer, found)

        single = signature(lambda text: answered(rows.of_texts(text)), text=TEXT)
        pair = signature(
            lambda text, text_pair: answered(rows.of_texts((text, text_pair))), text=TEXT, text_pair=TEXT
        )
        return {
            "serving_default": single if len(self.text_inputs) == 1 else pair,
            "pair": pair,
            "ids": signature(lambda token_ids: answered(rows.of_ids(token_ids)), token_ids=TOKEN_IDS),
        }, rows

    def edge(self, rows):
        return self.model(rows, training=False)

    def compare(self, outputs, expected):
        return {"largest_error": largest_error(outputs, expected)}

    def reference(self):
        return EncoderReference(self)


class EncoderReference(Reference):
    """The answers of the model itself, on rows of full length.

    Args:
        answers: `EncoderAnswers`.
    """

    def __init__(self, answers):
        self._answers, self._model = answers, answers.model

    def error(self, name, inputs, outputs):
        """Returns the largest error of an output; infinite if an output that is not a float differs."""
        if name == "embed":
            return relative_difference(outputs["embedding"], self._model.embed(self.rows(inputs)))
        expected = self._answers.answer(self.rows(inputs))
        # Not Python's maximum, which loses NaN.
        return float(np.max([_error(outputs[key], np.asarray(value)) for key, value in expected.items()]))

    def edge(self, inputs):
        return np.asarray(self._answers.edge(self.rows(inputs)))

    def rows(self, inputs):
        """Returns what the model reads of texts, pairs or ids: {"token_ids", "padding_mask"}, [B,L] each."""
        if "token_ids" in inputs:
            token_ids = full_rows(inputs["token_ids"], self._answers.sequence_length)
            return {"token_ids": token_ids, "padding_mask": token_ids != 0}
        text = (inputs["text"], inputs["text_pair"]) if "text_pair" in inputs else inputs["text"]
        return self._answers.preprocess(text)


def _error(actual, expected):
    if expected.dtype.kind == "f":
        return relative_difference(actual, expected)
    return 0.0 if np.array_equal(actual, expected) else np.inf
