"""The inference forms as TFLite: built-in operations only, any batch and length."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels
from tests.tflite import converted, run

DIM, HEADS, TAPS = 8, 2, 4


@pytest.mark.parametrize(("rate", "causal"), [(1, False), (1, True), (3, False)])
def test_depthwise_conv(rate, causal):
    rng = np.random.default_rng(0)
    taps = tf.constant(rng.normal(size=[HEADS, TAPS]).astype("float32"))
    interpreter = converted(
        lambda x: kernels.depthwise_conv(x, taps, rate, causal), tf.TensorSpec([None, None, DIM])
    )
    for batch, time in ((1, 3), (2, 20)):
        x = rng.normal(size=[batch, time, DIM]).astype("float32")
        # Float32 sums of four terms in another order.
        np.testing.assert_allclose(
            run(interpreter, x), kernels.depthwise_conv(x, taps, rate, causal), atol=1e-5
        )


def test_dynamic_conv():
    rng = np.random.default_rng(0)
    x_spec, taps_spec = (
        tf.TensorSpec([None, None, DIM], name="a"),
        tf.TensorSpec([None, None, HEADS, TAPS], name="b"),
    )
    interpreter = converted(lambda x, taps: kernels.dynamic_conv(x, taps, 2, True), x_spec, taps_spec)
    for batch, time in ((1, 3), (2, 20)):
        x, taps = (rng.normal(size=[batch, time, *tail]).astype("float32") for tail in ([DIM], [HEADS, TAPS]))
        # Float32 sums of four terms in another order.
        np.testing.assert_allclose(
            run(interpreter, x, taps), kernels.dynamic_conv(x, taps, 2, True), atol=1e-5
        )
