"""The loop in this process, on one device."""

import json
import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from convnlp.training import loop, metrics
from convnlp.training import strategy as strategy_lib
from tests.training.toy import BATCH, LENGTH, NUM_STEPS, Toy


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def weights(toy):
    return np.concatenate([v.numpy().ravel() for v in toy.model.variables])


def test_learns_and_writes_what_it_did(tmp_path, capsys):
    toy = Toy()
    facts = toy.train(tmp_path, samples=lambda: "a sample")
    rows = lines(tmp_path / "metrics.jsonl")
    trained = [row for row in rows if "loss" in row]
    assert [row["step"] for row in trained] == list(range(2, NUM_STEPS + 1, 2))
    assert trained[-1]["loss"] < 0.8 * trained[0]["loss"]
    assert {"loss", "gradient_norm", "learning_rate", "tokens"} < set(trained[0])
    assert trained[0]["learning_rate"] == pytest.approx(0.0375)  # mean of the warm-up's 0.025 and 0.05
    assert [row["step"] for row in rows if "valid/loss" in row] == [10, 20]
    expected = sum(int(batch["padding_mask"].numpy().sum()) for batch in toy.dataset().take(NUM_STEPS))
    assert facts["tokens"] == trained[-1]["tokens"] == expected < NUM_STEPS * BATCH * LENGTH
    assert facts["step"] == facts["best_step"] == NUM_STEPS
    assert facts["best_value"] == rows[-1]["valid/loss"]
    assert [row["step"] for row in lines(tmp_path / "times.jsonl")] == [row["step"] for row in trained]
    assert list((tmp_path / "tensorboard").iterdir())
    assert capsys.readouterr().err.count("a sample") == 2


def test_a_finished_run_does_nothing_more(tmp_path):
    first = Toy()
    facts = first.train(tmp_path)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    again = Toy()
    assert again.train(tmp_path) == facts
    np.testing.assert_array_equal(weights(again), weights(first))
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_ends_with_the_weights_of_the_best_step(tmp_path):
    values, seen = iter([1.0, 2.0]), []
    toy = Toy()

    def evaluate():
        seen.append(weights(toy))
        return {"valid/loss": next(values)}

    facts = toy.train(tmp_path, evaluate=evaluate)
    assert (facts["step"], facts["best_step"], facts["best_value"]) == (NUM_STEPS, 10, 1.0)
    np.testing.assert_array_equal(weights(toy), seen[0])


def test_steps_per_call_change_nothing(tmp_path):
    results = []
    for steps_per_call in (1, 4):
        toy = Toy()
        toy.train(tmp_path / str(steps_per_call), steps_per_call=steps_per_call, eval_every=NUM_STEPS)
        results.append(weights(toy))
    np.testing.assert_array_equal(*results)


def test_clips_the_global_norm(tmp_path):
    toy = Toy(dropout=0)
    toy.train(tmp_path, num_steps=1, steps_per_call=1, checkpoint_every=1, eval_every=1, clip_norm=1e-3)
    moments = [v.numpy() for v in toy.optimizer.variables if v.path.endswith("momentum")]
    norm = np.sqrt(sum((m**2).sum() for m in moments)) / 0.1  # m = (1 - beta_1) g after one step
    assert norm == pytest.approx(1e-3, rel=1e-4)  # float32
    assert lines(tmp_path / "metrics.jsonl")[0]["gradient_norm"] > 1e-2


def test_a_loss_that_is_not_finite_stops_and_names_the_step(tmp_path):
    toy = Toy()

    def loss_fn(batch, seed=None):
        outputs = toy.loss_fn(batch, seed)
        poison = tf.where(toy.optimizer.iterations == 6, np.nan, 1.0)  # the seventh step
        return {**outputs, "loss_sum": outputs["loss_sum"] * tf.cast(poison, tf.float32)}

    with pytest.raises(loop.NonFiniteLossError, match=r"the loss is not finite at step 7$"):
        toy.train(tmp_path, loss_fn=loss_fn)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["00000004"]


def test_sigterm_saves_and_the_run_goes_on_from_there(tmp_path, monkeypatch):
    whole = Toy()
    whole.train(tmp_path / "whole", evaluate=None)

    write = metrics.Metrics.write

    def write_and_terminate(self, step, *args):
        write(self, step, *args)
        if step == 6:  # no checkpoint is due here
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(metrics.Metrics, "write", write_and_terminate)
    with pytest.raises(loop.StoppedError, match=r"stopped by SIGTERM at step 6, checkpoint saved") as stop:
        Toy().train(tmp_path / "stopped", evaluate=None)
    assert stop.value.exit_code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    monkeypatch.undo()
    resumed = Toy()
    resumed.train(tmp_path / "stopped", evaluate=None)
    np.testing.assert_array_equal(weights(resumed), weights(whole))
    lines_of = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("whole", "stopped")]
    assert lines_of[0] == lines_of[1]


def test_every_step_and_replica_has_its_own_seed(tmp_path):
    toy = Toy()

    def loss_fn(batch, seed=None):
        if seed is None:
            return toy.loss_fn(batch)
        halves = {f"seed_{i}": (tf.cast(seed[i] % 1000, tf.float32), 1.0) for i in range(2)}
        return {**toy.loss_fn(batch, seed), **halves}

    toy.train(tmp_path, loss_fn=loss_fn, steps_per_call=1, seed=3)
    rows = [row for row in lines(tmp_path / "metrics.jsonl") if "loss" in row]
    assert len({(row["seed_0"], row["seed_1"]) for row in rows}) == NUM_STEPS


def test_evaluation_weighs_examples_not_batches():
    toy = Toy(dropout=0)
    rows = next(iter(toy.dataset().unbatch().batch(6)))
    uneven = tf.data.Dataset.from_tensor_slices(rows).batch(4)
    whole = tf.data.Dataset.from_tensors(rows)
    evaluation = loop.evaluation(toy.strategy, toy.loss_fn)
    assert evaluation(uneven)["loss"] == pytest.approx(evaluation(whole)["loss"], rel=1e-6)  # float32
    with pytest.raises(ValueError, match=r"at least one batch"):
        evaluation(uneven.take(0))


def test_variables_without_a_gradient_stay(tmp_path):
    toy = Toy()
    before = toy.head.bias.numpy()

    def loss_fn(batch, seed=None):
        logits = tf.matmul(toy.embedding(batch["token_ids"]), toy.head.kernel)
        return {"loss_sum": tf.reduce_sum(tf.square(logits - 1)), "weight": tf.constant(8.0)}

    toy.train(tmp_path, loss_fn=loss_fn)
    np.testing.assert_array_equal(toy.head.bias.numpy(), before)


@pytest.mark.parametrize("name", ["num_steps", "checkpoint_every", "eval_every"])
def test_step_counts_must_be_multiples(tmp_path, name):
    with pytest.raises(
        ValueError, match=rf"`{name}` must be a positive multiple of steps_per_call. Received: {name}=7"
    ):
        Toy().train(tmp_path, **{name: 7})


def test_data_that_end_are_named(tmp_path):
    toy = Toy()
    with pytest.raises(ValueError, match=r"`dataset` ended before step 20. Received: no batch at step 6"):
        toy.train(tmp_path, dataset=toy.dataset().take(7))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("gpu",),
            "`strategy` must be one of one_device, mirrored, multi_worker, tpu. Received: strategy='gpu'",
        ),
        (("mirrored", "my-tpu"), "`tpu` needs strategy='tpu'"),
        (("one_device", "", 2), "`num_virtual_devices` needs strategy='mirrored'"),
        (("multi_worker",), "needs TF_CONFIG.*Received: TF_CONFIG=None"),
    ],
)
def test_strategies_that_cannot_be_had(arguments, message, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(ValueError, match=message):
        strategy_lib.build(*arguments)
