"""Adafactor against the algorithm in NumPy, and what is left out of weight decay."""

import keras
import ml_collections
import numpy as np
import pytest
import tensorflow as tf

from convnlp.training import optimizers
from tests.training.toy import OPTIMIZER


def rms(x):
    return np.sqrt(np.mean(np.square(x)))


def numpy_adafactor(weights, gradients, learning_rate, factored):
    """Shazeer and Stern's Algorithms 4 and 5 in float64."""
    row = column = moment = 0.0
    for t, gradient in enumerate(gradients, start=1):
        beta = 1 - t**-0.8
        square = gradient**2 + 1e-30
        if factored:
            row = beta * row + (1 - beta) * square.mean(-1, keepdims=True)
            column = beta * column + (1 - beta) * square.mean(-2, keepdims=True)
            moment = row * column / row.mean(-2, keepdims=True)
        else:
            moment = beta * moment + (1 - beta) * square
        update = gradient / np.sqrt(moment)
        update /= max(1, rms(update))
        weights = weights - max(1e-3, rms(weights)) * learning_rate * update
    return weights


def apply_all(optimizer, weights, gradients):
    variable = keras.Variable(weights.astype("float32"))
    optimizer.build([variable])
    for gradient in gradients:
        optimizer.apply([tf.constant(gradient, tf.float32)], [variable])
    return variable.numpy()


@pytest.mark.parametrize(
    ("shape", "factored"), [((6, 9), True), ((2, 6, 9), True), ((9,), False), ((6, 3), False)]
)
def test_adafactor_is_the_algorithm(shape, factored):
    rng = np.random.default_rng(0)
    weights = rng.normal(size=shape)
    gradients = rng.normal(size=(4, *shape)) * 10.0 ** rng.integers(-4, 1, size=(4, *shape))
    optimizer = optimizers.Adafactor(learning_rate=0.1, min_factored_size=6)
    actual = apply_all(optimizer, weights, gradients)
    expected = numpy_adafactor(weights, gradients, 0.1, factored)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)  # float32 against float64


def test_adafactor_moves_small_weights_by_a_thousandth_of_the_rate():
    rng = np.random.default_rng(0)
    weights, gradients = 1e-5 * rng.normal(size=(6, 3)), rng.normal(size=(4, 6, 3))
    actual = apply_all(optimizers.Adafactor(learning_rate=0.1), weights, gradients)
    expected = numpy_adafactor(weights, gradients, 0.1, factored=False)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-9)


def test_adafactor_survives_what_has_no_gradient():
    gradient = np.random.default_rng(0).normal(size=(5, 6))
    gradient[1], gradient[:, 2] = 0, 0
    optimizer = optimizers.Adafactor(learning_rate=0.1, min_factored_size=2)
    weights = apply_all(optimizer, np.ones((5, 6)), [gradient] * 3)
    assert np.isfinite(weights).all()
    assert (weights[1] == 1).all()
    assert (weights[:, 2] == 1).all()


def test_adafactor_keeps_a_row_and_a_column():
    optimizer = optimizers.Adafactor(learning_rate=0.1)
    optimizer.build([keras.Variable(np.zeros((128, 256))), keras.Variable(np.zeros((127, 256)))])
    sizes = [tuple(v.shape) for v in optimizer.variables if len(v.shape)]
    assert sizes == [(128,), (256,), (127, 256)]


def test_adafactor_keeps_its_settings():
    optimizer = optimizers.Adafactor(learning_rate=0.1, weight_decay=0.2, min_factored_size=2)
    again = optimizers.Adafactor.from_config(optimizer.get_config())
    assert (again.weight_decay, again.min_factored_size) == (0.2, 2)


def test_weight_decay_spares_vectors_and_embeddings():
    embedding, dense, norm = (
        keras.layers.Embedding(4, 3),
        keras.layers.Dense(3),
        keras.layers.LayerNormalization(),
    )
    model = keras.Sequential([keras.Input((2,), dtype="int32"), embedding, dense, norm])
    config = ml_collections.ConfigDict(
        {**OPTIMIZER, "schedule": "constant", "weight_decay": 0.5, "learning_rate": 0.1}
    )
    optimizer = optimizers.build(config, num_steps=10)
    optimizers.build_slots(optimizer, model.trainable_variables)
    before = [v.numpy() for v in model.trainable_variables]
    optimizer.apply([tf.zeros(v.shape) for v in model.trainable_variables])
    for v, old in zip(model.trainable_variables, before, strict=True):
        np.testing.assert_allclose(
            v.numpy(), old * (0.95 if v is dense.kernel else 1.0), rtol=1e-6
        )  # float32


def test_adamw_is_the_algorithm():
    rng = np.random.default_rng(0)
    weights, gradients = rng.normal(size=(3, 4)), rng.normal(size=(3, 3, 4))
    config = ml_collections.ConfigDict(
        {**OPTIMIZER, "schedule": "constant", "weight_decay": 0.1, "learning_rate": 0.01}
    )
    actual = apply_all(optimizers.build(config, num_steps=10), weights, gradients)
    m = v = 0.0
    for t, g in enumerate(gradients, start=1):
        m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g * g
        weights = weights * (1 - 0.01 * 0.1)
        weights = weights - 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.98**t)) + 1e-7)
    np.testing.assert_allclose(actual, weights, rtol=1e-5)  # float32 against float64


def test_unknown_optimizer():
    with pytest.raises(
        ValueError, match=r"`optimizer.name` must be one of adafactor, adamw. Received: 'sgd'"
    ):
        optimizers.build(ml_collections.ConfigDict({**OPTIMIZER, "name": "sgd"}), num_steps=10)
