"""A softmax in parts against one over all scores at once."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels

CUTS = [3, 1, 5]


def whole(scores, allowed, values):
    """Softmax over all that is allowed, and the average of the values, in float64."""
    scores = np.where(allowed, scores.astype("float64"), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)) @ values


def in_parts(scores, allowed, values):
    parts = []
    for part, seen, of_part in zip(
        tf.split(scores, CUTS, axis=1), tf.split(allowed, CUTS, axis=1), tf.split(values, CUTS), strict=True
    ):
        weights, largest, total = kernels.softmax_part(part, seen)
        parts.append((weights @ of_part, largest, total))
    return kernels.merge_softmax_parts(parts)


@pytest.mark.parametrize("form", ["plain", "fast", "inference", "edge"])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_parts_are_the_whole(form, scale):
    rng = np.random.default_rng(0)
    scores, values = scale * rng.normal(size=[6, 9]).astype("float32"), rng.normal(size=[9, 4])
    allowed = rng.random([6, 9]) < 0.6
    allowed[:, 0] = True  # in the first part something is
    allowed[1, 3:], allowed[2, 4:] = False, False
    scores[:, 5] += 1e4 * ~allowed[:, 5]  # the largest of all, where hidden
    with kernels.implementation(form):
        y = in_parts(tf.constant(scores), tf.constant(allowed), tf.constant(values, tf.float32))
    np.testing.assert_allclose(y, whole(scores, allowed, values), atol=1e-5)


@pytest.mark.parametrize("form", ["plain", "edge"])
def test_gradients_are_those_of_one_softmax(form):
    rng = np.random.default_rng(1)
    scores = tf.constant(rng.normal(size=[6, 9]).astype("float32"))
    values = tf.constant(rng.normal(size=[9, 4]).astype("float32"))
    allowed = rng.random([6, 9]) < 0.6
    allowed[:, 0], allowed[1, 3:] = True, False
    with kernels.implementation(form), tf.GradientTape(persistent=True) as tape:
        tape.watch([scores, values])
        found = tf.reduce_sum(in_parts(scores, tf.constant(allowed), values) ** 2)
        expected = tf.reduce_sum((tf.nn.softmax(tf.where(allowed, scores, -1e30)) @ values) ** 2)
    for by in (scores, values):
        np.testing.assert_allclose(tape.gradient(found, by), tape.gradient(expected, by), atol=1e-5)
    assert not np.any(tape.gradient(found, scores)[~allowed])
