"""Attention's products: the equations in a NumPy loop, and equal forms."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels

SHAPES = pytest.mark.parametrize("shape", [(2, 5, 7, 3, 4), (1, 1, 6, 2, 8)])
FORMS = pytest.mark.parametrize("form", ["fast", "plain", "inference", "edge"])


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


def scores_in_a_loop(queries, keys):
    batch, num_queries, heads, _ = queries.shape
    scores = np.zeros([batch, heads, num_queries, keys.shape[1]])
    for b, h, q, k in np.ndindex(scores.shape):
        scores[b, h, q, k] = sum(queries[b, q, h] * keys[b, k, h])
    return scores


def mixture_in_a_loop(weights, values):
    batch, heads, num_queries, num_keys = weights.shape
    mixture = np.zeros([batch, num_queries, heads, values.shape[3]])
    for b, h, q, k in np.ndindex(batch, heads, num_queries, num_keys):
        mixture[b, q, h] += weights[b, h, q, k] * values[b, k, h]
    return mixture


def values_and_gradients(form, function, *arguments):
    arguments = [tf.constant(argument) for argument in arguments]
    with kernels.implementation(form), tf.GradientTape() as tape:
        tape.watch(arguments)
        y = function(*arguments)
    return [y.numpy(), *(dx.numpy() for dx in tape.gradient(y, arguments, tf.constant(normal(*y.shape))))]


@FORMS
@SHAPES
def test_products_are_those_of_a_loop(form, shape):
    batch, num_queries, num_keys, heads, channels = shape
    keys = normal(batch, num_keys, heads, channels)
    queries = normal(batch, num_queries, heads, channels)
    weights = normal(batch, heads, num_queries, num_keys)
    for function, loop, arguments in (
        (kernels.scores_by_head, scores_in_a_loop, (queries, keys)),
        (kernels.mix_by_head, mixture_in_a_loop, (weights, keys)),
    ):
        found = values_and_gradients(form, function, *arguments)
        np.testing.assert_allclose(found[0], loop(*arguments), atol=1e-5)
        for one, other in zip(found, values_and_gradients("plain", function, *arguments), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


def test_unknown_sizes_are_served():
    """The shape of the result holds what is known of the arguments."""
    heads = tf.TensorSpec([None, None, 2, 4])
    with kernels.implementation("fast"):
        scores = tf.function(kernels.scores_by_head).get_concrete_function(heads, heads)
        mixed = tf.function(kernels.mix_by_head).get_concrete_function(
            tf.TensorSpec([None, 2, None, None]), heads
        )
    assert scores.output_shapes.as_list() == [None, 2, None, None]
    assert mixed.output_shapes.as_list() == [None, None, 2, 4]
    assert scores(tf.ones([3, 5, 2, 4]), tf.ones([3, 6, 2, 4])).shape == [3, 2, 5, 6]
