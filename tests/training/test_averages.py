"""The moving average of the weights: its values, what reads them, and that the raw weights stay."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp.adamw import AdamW
from convnlp.training import averages, checkpoints, optimizers
from tests.training.toy import NUM_STEPS, Toy


def values(variables):
    return [v.numpy() for v in variables]


def numpy_averages(history, momentum):
    """The averages after each update, from the weights before the first and after every update."""
    average, found = np.asarray(history[0], "float64"), []
    for t, weights in enumerate(history[1:]):
        m = min(momentum, (1 + t) / (10 + t))
        average = m * average + (1 - m) * weights
        found.append(average)
    return found


@pytest.mark.parametrize("optimizer_cls", [AdamW, optimizers.Adafactor])
@pytest.mark.parametrize("momentum", [0.3, 0.99])
def test_averages_are_the_formula(optimizer_cls, momentum):
    rng = np.random.default_rng(0)
    used, unused = (keras.Variable(rng.normal(size=shape), dtype="float32") for shape in ((3, 2), (4,)))
    optimizer = optimizer_cls(0.1)
    optimizer.build([used, unused])
    moving = averages.Averages(optimizer, [used, unused], momentum)
    strategy = tf.distribute.get_strategy()

    @tf.function(autograph=False)
    def step(gradient):
        def replica_step(gradient):
            optimizer.apply([gradient], [used])
            moving.update()

        strategy.run(replica_step, args=(gradient,))

    history = [used.numpy()]
    for gradient in rng.normal(size=(12, 3, 2)):
        step(tf.constant(gradient, tf.float32))
        history.append(used.numpy())
        expected = numpy_averages(history, momentum)[-1]
        with moving.taken():
            np.testing.assert_allclose(used.numpy(), expected, rtol=1e-5, atol=1e-6)  # float32
            spared = unused.numpy()
        np.testing.assert_array_equal(used.numpy(), history[-1])
        np.testing.assert_array_equal(spared, unused.numpy())  # not a trace of a start at zero
    assert np.abs(expected - history[-1]).max() > 1e-2


def test_the_first_weights_are_soon_forgotten():
    """After 100 updates at momentum 0.9999 they would weigh 99 % without the growing momentum."""
    weight = numpy_averages([1.0] + [0.0] * 100, 0.9999)[-1]
    assert weight < 1e-6


def test_evaluation_sees_the_averages_and_training_goes_on_with_the_raw_weights(tmp_path):
    plain, averaged, seen = Toy(), Toy(), []
    plain.train(tmp_path / "plain")

    def evaluate():
        seen.append(values(averaged.model.trainable_variables))
        return {"valid/loss": float(-len(seen))}

    averaged.train(tmp_path / "averaged", evaluate=evaluate, ema_momentum=0.5)
    losses = [
        [row["loss"] for row in map(json.loads, path.read_text().splitlines()) if "loss" in row]
        for path in (tmp_path / "plain" / "metrics.jsonl", tmp_path / "averaged" / "metrics.jsonl")
    ]
    assert losses[0] == losses[1]  # not a bit of the raw weights has changed
    final = values(averaged.model.trainable_variables)
    for one, other, raw in zip(final, seen[-1], values(plain.model.trainable_variables), strict=True):
        np.testing.assert_array_equal(one, other)
        assert np.abs(one - raw).max() > 1e-4


def test_the_averages_of_the_best_step_are_left(tmp_path):
    toy, scores, seen = Toy(), iter([1.0, 2.0]), []

    def evaluate():
        seen.append(values(toy.model.trainable_variables))
        return {"valid/loss": next(scores)}

    assert toy.train(tmp_path, evaluate=evaluate, ema_momentum=0.9)["best_step"] == 10
    for one, other in zip(values(toy.model.trainable_variables), seen[0], strict=True):
        np.testing.assert_array_equal(one, other)
    again = Toy()  # a finished run that is started once more
    again.train(tmp_path, evaluate=evaluate, ema_momentum=0.9)
    for one, other in zip(values(again.model.trainable_variables), seen[0], strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_checkpoint_holds_the_raw_weights_even_where_an_evaluation_fails(tmp_path, monkeypatch):
    saved, save = {}, checkpoints.Checkpoints.save
    toy = Toy()

    def remembered(self, step, facts):
        saved[step] = values(toy.model.trainable_variables)
        save(self, step, facts)

    monkeypatch.setattr(checkpoints.Checkpoints, "save", remembered)
    toy.train(tmp_path / "averaged", ema_momentum=0.9)
    plain, raw = Toy(), dict(saved)
    saved.clear()
    monkeypatch.setattr(
        checkpoints.Checkpoints,
        "save",
        lambda self, step, facts: saved.update({step: values(plain.model.trainable_variables)}),
    )
    plain.train(tmp_path / "plain")
    assert saved.keys() == raw.keys() >= {8, 10, NUM_STEPS}
    for step, weights in saved.items():
        for one, other in zip(weights, raw[step], strict=True):
            np.testing.assert_array_equal(one, other)

    def failing():
        raise RuntimeError("out of memory")

    broken = Toy()
    with pytest.raises(RuntimeError, match="out of memory"):
        broken.train(tmp_path / "broken", evaluate=failing, ema_momentum=0.9, checkpoint_every=20)
    for one, other in zip(values(broken.model.trainable_variables), raw[10], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("momentum", [1.0, -0.1, float("nan")])
def test_a_momentum_that_is_none(tmp_path, momentum):
    with pytest.raises(ValueError, match=r"^`ema_momentum` must be a number in \[0, 1\)"):
        Toy().train(tmp_path, ema_momentum=momentum)
    assert not list(tmp_path.iterdir())
