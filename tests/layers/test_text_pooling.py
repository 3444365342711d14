"""Mean and maximum over the tokens of a text, whatever stands at its pads."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels
from convnlp.layers.token_pooling import TextPooling
from tests.tflite import converted, run

TOKENS = np.array([[True, True, False, False], [True] * 4, [False] * 4, [True, False, False, False]])
X = np.random.default_rng(0).normal(size=[4, 4, 6]).astype("float32") - 2.0  # most maxima are below 0


def expected(x):
    rows = [row[tokens] for row, tokens in zip(x.astype("float64"), TOKENS, strict=True)]
    return [
        np.stack([function(row, 0) if len(row) else np.zeros(6) for row in rows])
        for function in (np.mean, np.max)
    ]


@pytest.mark.parametrize(
    ("form", "pad"),
    [(form, pad) for form in ("plain", "fast", "inference") for pad in (1e30, np.inf, np.nan)]
    + [("edge", 1e30)],
)
@pytest.mark.parametrize("scale", [1.0, 1e10])
def test_values_and_gradients(form, pad, scale):
    x = tf.constant(np.where(TOKENS[..., np.newaxis], scale * X, pad).astype("float32"))
    with kernels.implementation(form), tf.GradientTape() as tape:
        tape.watch(x)
        outputs = TextPooling()(x, tf.constant(TOKENS))
    for output, reference in zip(outputs, expected(scale * X), strict=True):
        np.testing.assert_allclose(output, reference, rtol=1e-5)
    gradient = tape.gradient(outputs, x).numpy()
    assert not gradient[~TOKENS].any()
    np.testing.assert_allclose(gradient.sum(1), 2.0 * TOKENS.any(1, keepdims=True) * np.ones(6), rtol=1e-5)


def test_no_rows():
    mean, maximum = TextPooling()(tf.zeros([0, 4, 6]), tf.zeros([0, 4], tf.bool))
    assert mean.shape == maximum.shape == (0, 6)


def test_as_tflite():
    interpreter = converted(
        lambda x, mask: tf.concat(TextPooling()(x, mask), 1),
        tf.TensorSpec([None, None, 6], name="a"),
        tf.TensorSpec([None, None], tf.bool, name="b"),
    )
    x = np.where(TOKENS[..., np.newaxis], X, 1e6).astype("float32")
    np.testing.assert_allclose(run(interpreter, x, TOKENS), np.concatenate(expected(X), 1), atol=1e-5)
