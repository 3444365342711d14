"""What an exported model should answer, by the model itself."""

import abc

import numpy as np


class Reference(abc.ABC):
    """What the answers of an exported model should be: by the model in eager mode, on rows of full length."""

    @abc.abstractmethod
    def error(self, name, inputs, outputs):
        """The largest error of an answer; infinite where it is wrong in more than float values.

        Args:
            name: str, the signature.
            inputs: dict, name -> array.
            outputs: dict, name -> array, what was answered.
        """

    @abc.abstractmethod
    def edge(self, inputs):
        """The output of the TFLite model for these inputs, an array."""


def largest_error(outputs, expected):
    """The largest difference of two arrays; NaN where one is none."""
    return float(np.max(np.abs(outputs - expected)))


def relative_difference(actual, expected):
    """The largest difference, relative to the largest value where that is above 1."""
    expected = np.asarray(expected)
    return float(np.max(np.abs(actual - expected)) / max(1.0, np.max(np.abs(expected))))


def full_rows(token_ids, length):
    """Token ids [B,T] cut at `length` or filled up to it with pads: [B,length]."""
    kept = token_ids[:, :length]
    return np.pad(kept, [[0, 0], [0, length - kept.shape[1]]])
