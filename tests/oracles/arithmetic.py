"""What the oracles share."""

import math

import numpy as np


def softmax(values):
    """Softmax over the last axis."""
    exp = np.exp(values - values.max(-1, keepdims=True))
    return exp / exp.sum(-1, keepdims=True)


def layer_norm(values, epsilon=1e-6):
    """Mean 0 and variance 1 over the last axis."""
    centred = values - values.mean(-1, keepdims=True)
    return centred / np.sqrt(values.var(-1, keepdims=True) + epsilon)


@np.vectorize
def gelu(value):
    """The share of the normal distribution below a value, times the value."""
    return 0.5 * value * (1 + math.erf(value / math.sqrt(2)))


def weight(variable):
    """A Keras weight as float64."""
    return np.asarray(variable, "float64")


def texts(visible):
    """Yields each token's position i in the row, and the positions of its text from first to last.

    An index into the second is a position in the text: that of i is `text.index(i)`.
    """
    for i, seen in enumerate(visible):
        if seen[i]:
            yield i, np.flatnonzero(seen).tolist()
