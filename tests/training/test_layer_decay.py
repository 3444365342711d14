"""A learning rate that falls from layer to layer, against the optimizers' formulae with that rate."""

import keras
import ml_collections
import numpy as np
import pytest
import tensorflow as tf

from convnlp.adamw import AdamW
from convnlp.training import optimizers
from tests.training.test_optimizers import numpy_adafactor
from tests.training.toy import OPTIMIZER, with_all_extras

DEPTHS = (0, 1, 3)


def updated(name, weights, gradients, layer_decay, weight_decay=0.0):
    """Three variables of `DEPTHS` after a step for each gradient; the second is spared from weight decay."""
    fields = {"name": name, "schedule": "constant", "learning_rate": 0.1, "layer_decay": layer_decay}
    config = ml_collections.ConfigDict({**OPTIMIZER, **fields, "weight_decay": weight_decay})
    variables = [keras.Variable(value.astype("float32")) for value in weights]
    optimizer = optimizers.build(config, 10, lambda v: DEPTHS[[each is v for each in variables].index(True)])
    optimizer.exclude_from_weight_decay(var_list=variables[1:2])
    optimizer.build(variables)
    for gradient in gradients:
        optimizer.apply([tf.constant(g, tf.float32) for g in gradient], variables)
    return [v.numpy() for v in variables]


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(0).normal(size=(3, 4, 5))


@pytest.fixture(scope="module")
def gradients():
    return np.random.default_rng(1).normal(size=(4, 3, 4, 5))


def numpy_adamw(weights, gradients, rate, weight_decay):
    m = v = 0.0
    for t, g in enumerate(gradients, start=1):
        m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g * g
        weights = weights * (1 - rate * weight_decay)
        weights = weights - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.98**t)) + 1e-7)
    return weights


def test_adamw(weights, gradients):
    found = updated("adamw", weights, gradients, layer_decay=0.5, weight_decay=0.3)
    for i, (actual, depth) in enumerate(zip(found, DEPTHS, strict=True)):
        decay = 0.0 if i == 1 else 0.3
        expected = numpy_adamw(weights[i], gradients[:, i], 0.1 * 0.5**depth, decay)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6)  # float32 against float64


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_adafactor(weights, gradients, weight_decay):
    found = updated("adafactor", weights, gradients[:1], 0.5, weight_decay)
    for i, (actual, depth) in enumerate(zip(found, DEPTHS, strict=True)):
        rate = 0.1 * 0.5**depth
        kept = 1 if i == 1 else 1 - rate * weight_decay
        expected = numpy_adafactor(weights[i] * kept, gradients[:1, i], rate, factored=False)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6)  # float32 against float64


def test_without_decay_it_is_keras_own():
    build = optimizers.build
    config = ml_collections.ConfigDict({**OPTIMIZER, "layer_decay": 1.0})
    assert type(build(config, 20)) is type(build(OPTIMIZER, 20)) is AdamW
    config.name = "adafactor"
    assert type(build(config, 20)) is optimizers.Adafactor


def test_a_run_uses_it_beside_all_other_extras(tmp_path):
    toy, arguments = with_all_extras(None)
    before = [v.numpy() for v in toy.model.trainable_variables]
    toy.train(tmp_path, **{**arguments, "num_steps": 2, "later_stages": (), "ema_momentum": 0.0})
    moved = [
        np.abs(v.numpy() - old).max() for v, old in zip(toy.model.trainable_variables, before, strict=True)
    ]
    assert moved[0] < 0.3 * moved[1]  # the embedding has a quarter of the rate


def test_variables_of_another_model_are_not_passed_over():
    optimizer = optimizers.build(
        ml_collections.ConfigDict({**OPTIMIZER, "layer_decay": 0.5}), 10, lambda v: 0
    )
    with pytest.raises(ValueError, match=r"^`depth_of` must know the variables .* 0 for all 1 variables"):
        optimizer.build([keras.Variable([1.0])])


def test_a_decay_needs_the_depths():
    config = ml_collections.ConfigDict({**OPTIMIZER, "layer_decay": 0.5})
    with pytest.raises(ValueError, match=r"^`depth_of` must be given if optimizer.layer_decay is below 1. "):
        optimizers.build(config, 10)


@pytest.mark.parametrize("layer_decay", [0.0, 1.1, float("nan")])
def test_a_decay_that_is_none(layer_decay):
    config = ml_collections.ConfigDict({**OPTIMIZER, "layer_decay": layer_decay})
    with pytest.raises(ValueError, match=r"^`optimizer.layer_decay` must be a number in \(0, 1\]"):
        optimizers.build(config, 10)
