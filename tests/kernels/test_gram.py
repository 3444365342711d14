"""Blocks and bands against loops."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels


@pytest.mark.parametrize("form", ["plain", "edge"])
@pytest.mark.parametrize("time", [1, 31, 32, 33, 70])
@pytest.mark.parametrize(("kernel_size", "left"), [(1, 0), (7, 3), (8, 7), (40, 0), (40, 39)])
def test_blocks_hold_their_positions_and_what_the_taps_reach(form, time, kernel_size, left):
    dy, x = np.random.default_rng(0).normal(size=(2, 2, time, 3)).astype("float32")
    with kernels.implementation(form):
        dy_blocks, x_blocks = kernels.to_blocks(tf.constant(dy), tf.constant(x), kernel_size, left)
    block = kernels.block_size(kernel_size)
    assert dy_blocks.shape == (2, -(-time // block), block, 3)
    assert x_blocks.shape == (2, -(-time // block), block + kernel_size - 1, 3)
    for cut, whole, first in ((dy_blocks, dy, 0), (x_blocks, x, -left)):
        for n in range(cut.shape[1]):
            for u in range(cut.shape[2]):
                position = n * block + first + u
                expected = whole[:, position] if 0 <= position < time else np.zeros([2, 3])
                np.testing.assert_array_equal(cut[:, n, u], expected)


@pytest.mark.parametrize(("rows", "count"), [(1, 1), (1, 4), (5, 1), (3, 7), (6, 2)])
def test_a_band_holds_its_values_along_the_diagonal(rows, count):
    values = np.random.default_rng(0).normal(size=(2, count)).astype("float32")
    expected = np.zeros([2, rows, rows + count - 1], "float32")
    for u in range(rows):
        for j in range(count):
            expected[:, u, u + j] = values[:, j]
    np.testing.assert_array_equal(kernels.banded(tf.constant(values), rows), expected)
    unknown_sizes = [tf.TensorSpec([2, None]), tf.TensorSpec([], tf.int32)]
    unknown = tf.function(kernels.banded, input_signature=unknown_sizes)
    np.testing.assert_array_equal(unknown(values, rows), expected)
