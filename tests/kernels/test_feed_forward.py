"""The exported form of the feed-forward sublayer against NumPy, with matrices in float32 and in bfloat16."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels
from tests.kernels.test_project import UNIT, as_product, rounded


@pytest.fixture(autouse=True)
def inference():
    with kernels.implementation("inference"):
        yield


def values(seed=0):
    random = np.random.default_rng(seed)
    return (random.normal(size=size).astype("float32") for size in ([2, 3, 8], [8, 16], [16, 8], [16]))


@pytest.mark.parametrize("adds", [False, True])
def test_in_float32(adds):
    x, inner, outer, offset = values()
    offset = offset if adds else None
    hidden = np.maximum(x @ inner + (offset if adds else 0.0), 0.0)
    y = kernels.feed_forward(tf.constant(x), tf.constant(inner), tf.constant(outer), offset)
    np.testing.assert_allclose(y, hidden @ outer, atol=1e-5)  # float32 sums of 8 and 16 terms


@pytest.mark.parametrize("adds", [False, True])
def test_in_bfloat16_factors_and_products_are_rounded(adds):
    x, inner, outer, offset = values()
    offset = offset if adds else None
    product = as_product((rounded(x).astype("float64") @ rounded(inner)).astype("float32"))
    hidden = rounded(np.maximum(product + (offset if adds else 0.0), 0.0).astype("float32"))
    expected = hidden.astype("float64") @ rounded(outer)
    matrices = (tf.cast(matrix, tf.bfloat16) for matrix in (inner, outer))
    y = kernels.feed_forward(tf.constant(x), *matrices, offset)
    assert y.dtype == tf.float32
    np.testing.assert_array_equal(y, rounded(y))
    # The last rounding, and inner activations that another order of the sums rounds to a neighbour.
    np.testing.assert_allclose(y, expected, rtol=UNIT, atol=4 * UNIT)
    assert np.max(np.abs(y - np.maximum(x @ inner + (offset if adds else 0.0), 0.0) @ outer)) > 1e-3


def test_inner_activations_are_cast_only_where_something_is_added():
    def casts(offset):
        _, inner, outer, _ = values()
        matrices = [tf.cast(matrix, tf.bfloat16) for matrix in (inner, outer)]
        function = tf.function(lambda x: kernels.feed_forward(x, *matrices, offset), autograph=False)
        graph = function.get_concrete_function(tf.TensorSpec([None, None, 8])).graph
        return [node.type for node in graph.get_operations()].count("Cast")

    assert casts(None) == 2  # of x and of y
    assert casts(np.ones(16, "float32")) == 4
