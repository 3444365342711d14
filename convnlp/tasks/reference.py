"""The expected answers of an exported model, from the model itself."""

import abc

import numpy as np


class Reference(abc.ABC):
    """The expected answers of an exported model, from the model in eager mode on rows of full length."""

    @abc.abstractmethod
    def error(self, name, inputs, outputs):
        """Returns the largest error of an answer; infinite if it is wrong in more than float values.

        Args:
            name: str, the signature.
            inputs: dict, name -> array.
            outputs: dict, name -> array, the answer.
        """

    @abc.abstractmethod
    def edge(self, inputs):
        """Returns the expected output of the TFLite model for these inputs, an array."""


def largest_error(outputs, expected):
    """Returns the largest difference of two arrays; NaN if a difference is not a number."""
    return float(np.max(np.abs(outputs - expected)))


def relative_difference(actual, expected):
    """Returns the largest difference, relative to the largest value if that is above 1."""
    expected = np.asarray(expected)
    return float(np.max(np.abs(actual - expected)) / max(1.0, np.max(np.abs(expected))))


def full_rows(token_ids, length):
    """Cuts token ids [B,T] to `length`, or fills them up to it with pads: [B,length]."""
    kept = token_ids[:, :length]
    return np.pad(kept, [[0, 0], [0, length - kept.shape[1]]])
