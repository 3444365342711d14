"""The product of a projection against the same in NumPy: kernels in bfloat16, offsets, rows."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import machine
from convnlp import kernels

# TensorFlow's own product cuts its sums to bfloat16; oneDNN, which rounds them, needs AVX-512.
IS_CUT = not machine.has_flag("avx512f")
UNIT = 2.0**-7 if IS_CUT else 2.0**-8


def rounded(x):
    """Float32 to the nearest number whose lower 16 bits are 0, ties to the even one."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)


def as_product(x):
    """Float32 to bfloat16 as this machine's product does."""
    return (x.view(np.uint32) & 0xFFFF0000).view(np.float32) if IS_CUT else rounded(x)


@pytest.mark.parametrize("form", ["inference", "edge"])
@pytest.mark.parametrize("shape", [[1, 1, 16], [2, 7, 16], [40, 16]])
def test_factors_and_product_are_rounded_and_nothing_else(form, shape):
    rng = np.random.default_rng(0)
    x, kernel = rng.normal(size=shape).astype("float32"), rng.normal(size=[16, 5]).astype("float32")
    exact = rounded(x).astype("float64") @ rounded(kernel).astype("float64")
    with kernels.implementation(form):
        y = kernels.project(x, tf.cast(kernel, tf.bfloat16))
    assert y.dtype == tf.float32
    np.testing.assert_array_equal(y, rounded(y))
    # Float32 sums of 16 terms, rounded to 8 bits, or cut to them on a processor without AVX-512.
    assert np.all(np.abs(y - exact) <= UNIT * np.abs(exact) + 1e-5)
    assert np.max(np.abs(y - x @ kernel)) > 1e-3  # or nothing was rounded


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_product_has_the_type_of_its_input(dtype):
    x = tf.cast([[1.0, 2.0]], dtype)
    y = kernels.project(x, tf.constant([[10.0], [1.0]]))
    assert y.dtype == dtype
    assert y.numpy().tolist() == [[12.0]]


def test_a_convolution_over_all_channels_takes_such_a_kernel():
    rng = np.random.default_rng(0)
    x, kernel = rng.normal(size=[2, 9, 4]).astype("float32"), rng.normal(size=[3, 4, 6]).astype("float32")
    y = kernels.full_conv(x, tf.cast(kernel, tf.bfloat16))
    padded = np.pad(rounded(x).astype("float64"), [[0, 0], [1, 1], [0, 0]])
    expected = sum(padded[:, j : j + 9] @ rounded(kernel)[j].astype("float64") for j in range(3))
    assert y.dtype == tf.float32
    np.testing.assert_allclose(y, expected, rtol=UNIT, atol=1e-5)


@pytest.mark.parametrize("form", ["plain", "fast", "inference", "edge"])
def test_an_offset_is_added_to_each_row(form):
    random = np.random.default_rng(0)
    x, kernel, offset = (random.normal(size=size).astype("float32") for size in ([2, 3, 4], [4, 5], [5]))
    expected = [
        [[row @ column + o for column, o in zip(kernel.T, offset, strict=True)] for row in text] for text in x
    ]
    with kernels.implementation(form):
        y = kernels.project(tf.constant(x), tf.constant(kernel), offset)
    np.testing.assert_allclose(y, expected, atol=1e-5)  # float32 sums of four terms


@pytest.mark.parametrize("form", ["inference", "edge"])
def test_an_offset_is_added_in_float32_behind_a_product_in_bfloat16(form):
    rng = np.random.default_rng(0)
    x, kernel, offset = (rng.normal(size=size).astype("float32") for size in ([2, 3, 16], [16, 5], [5]))
    with kernels.implementation(form):
        product = kernels.project(x, tf.cast(kernel, tf.bfloat16))
        y = kernels.project(x, tf.cast(kernel, tf.bfloat16), offset)
    np.testing.assert_array_equal(y, product.numpy() + offset)


def test_saved_models_get_a_matrix_of_rows_and_keep_the_shape():
    ranks = []

    def function(rows):
        ranks.append(rows.shape.rank)
        return tf.concat([rows, rows], axis=-1)

    for form in ("plain", "fast", "inference", "edge"):
        with kernels.implementation(form):
            traced = tf.function(lambda x: kernels.by_rows(function, x), autograph=False)
            traced = traced.get_concrete_function(tf.TensorSpec([None, None, 4]))
        assert traced.outputs[0].shape.as_list() == [None, None, 8]
        np.testing.assert_array_equal(traced(tf.ones([2, 3, 4])), np.ones([2, 3, 8]))
    assert ranks == [3, 3, 2, 3]
