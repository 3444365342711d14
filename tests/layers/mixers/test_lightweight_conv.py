"""`LightweightConv` outside a block, which would have set the pads to zero."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels
from convnlp.layers import LightweightConv

WIDTH, HEADS = 32, 2  # enough channels per filter for the loop that is made for them


@pytest.mark.parametrize("pad", [np.nan, np.inf, 1e6])
def test_what_pads_hold_does_not_matter(pad):
    """However wide the model is; the suite's mixers are narrow, and so take another form of the kernel."""
    keras.utils.set_random_seed(0)
    mixer = LightweightConv(WIDTH, HEADS, kernel_size=3)
    x = np.random.default_rng(0).normal(size=[2, 9, WIDTH]).astype("float32")
    tokens = np.arange(9) < np.array([[5], [9]])

    def values_and_gradients(value):
        rows = tf.constant(np.where(tokens[..., np.newaxis], x, value).astype("float32"))
        with kernels.implementation("fast"), tf.GradientTape() as tape:
            tape.watch(rows)
            y = mixer(rows, padding_mask=tf.constant(tokens))[tokens]
            loss = tf.reduce_sum(tf.square(y))
        return [y, *tape.gradient(loss, [rows, mixer.kernel.value])]

    for found, expected in zip(values_and_gradients(pad), values_and_gradients(0.0), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)
