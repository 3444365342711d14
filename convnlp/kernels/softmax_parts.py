"""Attention over keys that are not in one tensor: a softmax in parts."""

import functools
import operator

import tensorflow as tf

from convnlp.kernels.compiled import float32
from convnlp.kernels.implementations import current_implementation

_LOWEST = tf.float32.min


def softmax_part(scores, allowed):
    """Returns the exponentials of one part of the scores, with 0 for masked scores.

        e[s] = exp(z[s] - m) if allowed, else 0        m = the largest allowed z

    Masked scores do not count, whatever they are. TFLite gets products instead of a selection, see
    `masked_softmax`.

    Args:
        scores: tensor [...,S], float.
        allowed: bool tensor that broadcasts to the scores, False = masked.

    Returns:
        Three float32 tensors: the exponentials [...,S], m [...,1], and the sum of the exponentials [...,1],
        which is at least 1, or 0 if all are masked.

    Example:
    >>> part, largest, total = softmax_part(tf.constant([[0.0, 5.0]]), tf.constant([[True, False]]))
    >>> part.numpy().tolist(), largest.numpy().tolist(), total.numpy().tolist()
    ([[1.0, 0.0]], [[0.0]], [[1.0]])
    """
    scores, kept = float32(scores), float32(allowed)
    if current_implementation() == "edge":
        seen = scores * kept + tf.reduce_min(scores, axis=-1, keepdims=True) * (1.0 - kept)
    else:
        seen = scores + tf.where(allowed, 0.0, _LOWEST)
    largest = tf.stop_gradient(tf.reduce_max(seen, axis=-1, keepdims=True))
    exponentials = tf.exp(seen - largest) * kept
    return exponentials, largest, tf.reduce_sum(exponentials, axis=-1, keepdims=True)


def merge_softmax_parts(parts):
    """Returns the mean of the values of all parts, weighted by one softmax over all their scores.

        y = sum_p exp(m_p - M) Y_p / sum_p exp(m_p - M) t_p        M = the largest of the m_p

    Args:
        parts: list of triples (Y_p [...,D], m_p [...,1], t_p [...,1]), float32: the sum of the values
            weighted by the exponentials of `softmax_part`, and its other two results. The first part must
            have at least one allowed score everywhere.

    Returns:
        Float32 tensor [...,D].

    Example:
    >>> parts = [(tf.constant([2.0]), tf.constant([0.0]), tf.constant([1.0]))]
    >>> parts += [(tf.constant([7.0]), tf.constant([0.0]), tf.constant([2.0]))]
    >>> merge_softmax_parts(parts).numpy().tolist()
    [3.0]
    """
    _, first, _ = parts[0]
    # If a part is masked throughout, its m is undefined and must not be the largest.
    tops = [tf.stop_gradient(first + tf.minimum(total, 1.0) * (top - first)) for _, top, total in parts]
    largest = tf.reduce_max(tf.stack(tops), axis=0)
    shares = [tf.exp(top - largest) for top in tops]
    values = [share * value for share, (value, _, _) in zip(shares, parts, strict=True)]
    totals = [share * total for share, (_, _, total) in zip(shares, parts, strict=True)]
    # Not by ADD_N, at which XNNPACK stops.
    return functools.reduce(operator.add, values) / functools.reduce(operator.add, totals)
