"""Position matrices of one head and of several; `tests/mixer_table.py` has their values in the mixers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp.layers.position_matrix import PositionMatrix
from convnlp.testing import random_rows

LENGTH = 9


def build(**options):
    keras.utils.set_random_seed(0)
    layer = PositionMatrix(LENGTH, causal=False, **options)
    layer.build()
    return layer


def test_one_head_is_one_product_bit_for_bit():
    layer, x = build(), random_rows()
    assert layer.kernel.shape == (LENGTH, LENGTH)
    layer.bias.assign(np.random.default_rng(0).normal(size=LENGTH))
    time = x.shape[1]
    expected = tf.matmul(layer.kernel[:time, :time], x) + layer.bias[:time, np.newaxis]
    np.testing.assert_array_equal(layer(x), expected)


@pytest.mark.parametrize("toeplitz", [False, True])
def test_each_head_starts_as_one_alone(toeplitz):
    alone, layer = build(toeplitz=toeplitz), build(toeplitz=toeplitz, num_heads=4)
    assert layer.kernel.shape == (*alone.kernel.shape, 4)
    assert layer.num_parameters() == 4 * alone.num_parameters() == layer.count_params()
    first, second, *_ = np.moveaxis(layer.kernel.numpy(), -1, 0)
    assert not np.any(first == second)
    largest = np.abs(layer.kernel.numpy()).max()
    # Glorot's limit, which depends on the shape; uniform values come near to it.
    limit = (6 / (2 * alone.kernel.shape[0])) ** 0.5
    assert 0.8 * limit < largest <= limit
