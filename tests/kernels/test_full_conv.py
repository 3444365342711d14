"""The convolution over all channels against TensorFlow's own."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels


@pytest.mark.parametrize(("size", "rate", "causal"), [(3, 1, False), (4, 1, True), (3, 2, False)])
def test_equals_tensorflows_convolution(size, rate, causal):
    rng = np.random.default_rng(0)
    x, kernel = rng.normal(size=[2, 11, 4]).astype("float32"), rng.normal(size=[size, 4, 6]).astype("float32")
    reach = (size - 1) * rate
    left = reach if causal else rate * ((size - 1) // 2)
    padded = np.pad(x, [[0, 0], [left, reach - left], [0, 0]])
    expected = tf.nn.conv1d(padded, kernel, 1, "VALID", dilations=rate)
    # Float32 sums of 16 terms of size one in another order.
    np.testing.assert_allclose(kernels.full_conv(x, kernel, rate, causal), expected, atol=1e-5)
    np.testing.assert_allclose(kernels.full_conv_valid(padded, kernel, rate), expected, atol=1e-5)
