"""The loop in this process, on one device."""

import functools
import itertools
import json
import math
import os
import re
import signal
import types

import ml_collections
import numpy as np
import pytest
import tensorflow as tf

from convnlp.training import checkpoints, graphs, loop, metrics, stopping, storage
from convnlp.training import strategy as strategy_lib
from convnlp.training.finite import NonFiniteError
from tests import remote
from tests.training.toy import BATCH, LENGTH, NUM_STEPS, OPTIMIZER, Toy


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


@pytest.mark.parametrize(
    ("direction", "values"), [("min", [3.0, 2.0, 1.0, 1.0]), ("max", [1.0, 2.0, 3.0, 3.0])]
)
def test_ends_with_the_weights_of_the_first_best_step(tmp_path, direction, values):
    """No checkpoint is due at that step; the last step is evaluated too, and is no better."""
    rest, seen = iter(values), []
    toy = Toy()

    def evaluate():
        seen.append(weights(toy))
        return {"valid/score": next(rest)}

    facts = toy.train(tmp_path, evaluate=evaluate, best=("valid/score", direction), eval_every=6)
    assert (facts["step"], facts["best_step"], facts["best_value"]) == (NUM_STEPS, 18, values[2])
    assert len(seen) == 4
    np.testing.assert_array_equal(weights(toy), seen[2])


@pytest.mark.parametrize(("best_after", "best_step"), [(0, 10), (9, 10), (10, 20)])
def test_a_best_step_counts_as_long_as_its_value_can_be_compared(tmp_path, capsys, best_after, best_step):
    """The first value is the best, but may be that of other validation data."""
    Toy().train(tmp_path, num_steps=10, evaluate=lambda: {"valid/loss": 1.0})
    values = iter([3.0, 2.0])
    facts = Toy().train(
        tmp_path,
        eval_every=NUM_STEPS // 2,
        evaluate=lambda: {"valid/loss": next(values, 2.0)},
        best_after=best_after,
    )
    assert facts["best_step"] == best_step
    assert ("step 10 is no longer the best" in capsys.readouterr().err) == (best_after == 10)


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


ADVICE = r"; the checkpoint of step 4 can be continued .*--resume_with_changes"


@pytest.mark.parametrize(("step", "advice", "saved"), [(7, ADVICE, ["00000004"]), (2, "$", [])])
def test_a_loss_that_is_not_finite_stops_and_names_the_step(tmp_path, step, advice, saved):
    toy = Toy()

    def loss_fn(batch, seed=None):
        outputs = toy.loss_fn(batch, seed)
        poison = tf.where(toy.optimizer.iterations == step - 1, np.nan, 1.0)
        return {**outputs, "loss_sum": outputs["loss_sum"] * tf.cast(poison, tf.float32)}

    with pytest.raises(NonFiniteError, match=f"the loss is not finite at step {step}{advice}"):
        toy.train(tmp_path, loss_fn=loss_fn)
    assert sorted(path.name for path in tmp_path.glob("checkpoints/*")) == saved


def test_weights_that_are_not_finite_are_not_saved(tmp_path, monkeypatch):
    toy = Toy()
    write = metrics.Metrics.write

    def write_and_spoil(self, step, *args):
        write(self, step, *args)
        if step == 8:
            toy.head.bias.assign(toy.head.bias * np.nan)

    monkeypatch.setattr(metrics.Metrics, "write", write_and_spoil)
    with pytest.raises(
        NonFiniteError, match=r"no checkpoint of step 8: .*bias.*; the one of step 4 is intact"
    ):
        toy.train(tmp_path)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["00000004"]


def test_a_score_that_is_not_finite_is_never_the_best(tmp_path):
    with pytest.raises(
        NonFiniteError, match=r"valid/loss is not finite at step 10; the checkpoint of step 8"
    ):
        Toy().train(tmp_path, evaluate=lambda: {"valid/loss": math.nan})
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["00000004", "00000008"]


def test_a_run_that_is_finished_before_its_first_score_needs_a_finite_one(tmp_path, monkeypatch):
    stopped(tmp_path, 4, monkeypatch)
    with pytest.raises(NonFiniteError, match=r"valid/loss is not finite at step 4; the checkpoint of step 4"):
        Toy().train(tmp_path, evaluate=lambda: {"valid/loss": math.nan}, finish=True)


def test_a_best_in_no_direction_is_refused_before_the_first_step(tmp_path):
    message = r"^`best` must be a name and \"min\" or \"max\". Received: best=\('valid/loss', 'minimum'\)$"
    with pytest.raises(ValueError, match=message):
        Toy().train(tmp_path, best=("valid/loss", "minimum"))
    assert not list(tmp_path.iterdir())


def test_a_best_that_is_never_evaluated_is_named(tmp_path):
    message = r"^`best` must name a value of `evaluate`, one of valid/loss. Received: best=\('loss', 'min'\)$"
    with pytest.raises(ValueError, match=message):
        Toy().train(tmp_path, best=("loss", "min"))


def test_a_diverged_run_goes_on_with_another_rate(tmp_path):
    def poisoned(toy):
        def loss_fn(batch, seed=None):
            outputs = toy.loss_fn(batch, seed)
            factor = tf.where(toy.optimizer.learning_rate > 1.0, np.nan, 1.0)
            return {**outputs, "loss_sum": outputs["loss_sum"] * tf.cast(factor, tf.float32)}

        return loss_fn

    high = Toy(optimizer=ml_collections.ConfigDict({**OPTIMIZER, "learning_rate": 2.0, "warmup_steps": 18}))
    with pytest.raises(NonFiniteError, match="step 10; the checkpoint of step 8 "):
        high.train(tmp_path, loss_fn=poisoned(high))
    low = Toy()
    assert low.train(tmp_path, loss_fn=poisoned(low))["step"] == NUM_STEPS
    rows = [row for row in lines(tmp_path / "metrics.jsonl") if "loss" in row]
    assert [row["step"] for row in rows] == list(range(2, NUM_STEPS + 1, 2))
    assert rows[3]["learning_rate"] > 0.5
    assert rows[4]["learning_rate"] < 0.05


def signalled_at(monkeypatch, signum, step):
    """Sends this process a signal when the metrics of that step are written."""
    write = metrics.Metrics.write

    def write_and_signal(self, at, *args):
        write(self, at, *args)
        if at == step:
            os.kill(os.getpid(), signum)

    monkeypatch.setattr(metrics.Metrics, "write", write_and_signal)


@pytest.mark.parametrize(
    ("signum", "step"),
    [(signal.SIGTERM, 6), (signal.SIGHUP, 6), (signal.SIGTERM, NUM_STEPS)],  # no checkpoint is due at step 6
)
def test_a_signal_saves_and_the_run_goes_on_from_there(tmp_path, monkeypatch, request, signum, step):
    request.addfinalizer(functools.partial(signal.signal, signum, signal.getsignal(signum)))
    signal.signal(signum, signal.SIG_DFL)  # which tests that run in the background may have inherited ignored
    whole = Toy()
    whole.train(tmp_path / "whole", evaluate=None)

    signalled_at(monkeypatch, signum, step)
    message = rf"stopped by {signum.name} at step {step}, checkpoint saved"
    with pytest.raises(stopping.StoppedError, match=message) as stop:
        Toy().train(tmp_path / "stopped", evaluate=None)
    assert stop.value.exit_code == 128 + signum
    assert signal.getsignal(signum) is signal.SIG_DFL

    monkeypatch.undo()
    resumed = Toy()
    resumed.train(tmp_path / "stopped", evaluate=None)
    np.testing.assert_array_equal(weights(resumed), weights(whole))
    lines_of = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("whole", "stopped")]
    assert lines_of[0] == lines_of[1]


@pytest.mark.parametrize(
    ("received", "message"),
    [
        ([signal.SIGTERM], "stopped by SIGTERM at step 6, checkpoint saved"),
        ([], "stopped by SIGTERM to worker 1 at step 6, checkpoint saved"),
    ],
)
def test_the_worker_that_was_told_to_stop_is_named_by_the_others(received, message):
    stop = stopping.stopped(received, [0.0, 15.0, 0.0], 6)
    assert str(stop).startswith(message)
    assert stop.exit_code == 143


def test_a_signal_that_comes_with_the_last_checkpoint_counts(tmp_path, monkeypatch):
    save = checkpoints.Checkpoints.save

    def save_and_signal(self, step, facts):
        save(self, step, facts)
        if step == NUM_STEPS:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(checkpoints.Checkpoints, "save", save_and_signal)
    with pytest.raises(stopping.StoppedError, match="at step 20"):
        Toy().train(tmp_path)


def test_a_stopped_run_is_finished_where_it_stands_and_still_goes_on(tmp_path, monkeypatch):
    whole, seen = Toy(), {}

    def evaluate():
        seen[int(whole.optimizer.iterations.numpy())] = weights(whole)
        return {"valid/loss": 1.0}

    whole.train(tmp_path / "whole", evaluate=evaluate)
    stopped(tmp_path / "run", 14, monkeypatch, evaluate=lambda: {"valid/loss": 1.0})

    finished = Toy()
    facts = finished.train(tmp_path / "run", evaluate=lambda: {"valid/loss": 1.0}, finish=True)
    assert (facts["step"], facts["best_step"]) == (14, 10)
    np.testing.assert_array_equal(weights(finished), seen[10])

    resumed = Toy()
    resumed.train(tmp_path / "run", evaluate=lambda: {"valid/loss": 1.0})
    np.testing.assert_array_equal(weights(resumed), weights(whole))
    lines_of = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("whole", "run")]
    assert lines_of[0] == lines_of[1]


def test_a_run_that_never_began_cannot_be_finished(tmp_path):
    with pytest.raises(ValueError, match=r"`finish` needs a run with a checkpoint\. Received: "):
        Toy().train(tmp_path, finish=True)


def test_under_nohup_a_hangup_changes_nothing(tmp_path, monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        signalled_at(monkeypatch, signal.SIGHUP, 6)
        assert Toy().train(tmp_path)["step"] == NUM_STEPS
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def stopped(workdir, step, monkeypatch, **arguments):
    """A run that was stopped at that step."""
    with monkeypatch.context() as patch:
        signalled_at(patch, signal.SIGTERM, step)
        with pytest.raises(stopping.StoppedError):
            Toy().train(workdir, **arguments)


def test_metrics_that_were_deleted_are_reported_and_not_filled_with_zeros(tmp_path, monkeypatch, caplog):
    stopped(tmp_path, 12, monkeypatch)
    (tmp_path / "metrics.jsonl").unlink()
    Toy().train(tmp_path)
    assert "metrics.jsonl has 0 bytes" in caplog.text
    assert [row["step"] for row in lines(tmp_path / "metrics.jsonl")] == [14, 16, 18, 20, 20]
    assert Toy().train(tmp_path)["step"] == NUM_STEPS  # and that run can go on
    assert len(lines(tmp_path / "metrics.jsonl")) == 5


def test_metrics_that_were_cut_keep_their_lines(tmp_path, monkeypatch, caplog):
    stopped(tmp_path, 12, monkeypatch)
    path = tmp_path / "metrics.jsonl"
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(whole[0] + whole[1][:9])
    Toy().train(tmp_path)
    now = path.read_bytes().splitlines(keepends=True)
    assert now[:2] == [whole[0], whole[1][:9] + b"\n"]
    assert json.loads(now[2])["step"] == 14


def test_metrics_that_were_deleted_stand_once_after_a_kill(tmp_path, monkeypatch):
    """The checkpoint that the run goes on from counts the bytes of the file that is gone."""
    stopped(tmp_path, 12, monkeypatch)
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 10}\n{"step": 14}\n{"step": 16}\n')  # of a run that was killed since
    Toy().train(tmp_path)
    assert [row["step"] for row in lines(path)] == [10, 14, 16, 18, 20, 20]


def test_behind_a_url_a_run_is_the_same_run(tmp_path, monkeypatch):
    ticks = itertools.count()  # a clock that goes on whenever it is read
    clock = types.SimpleNamespace(**dict.fromkeys(["monotonic", "process_time"], lambda: float(next(ticks))))
    monkeypatch.setattr(loop, "time", clock)
    whole = Toy()
    facts = whole.train(tmp_path)
    workdir = remote.url("loop/run")
    stopped(workdir, 6, monkeypatch)
    assert storage.gfile.exists(f"{workdir}/checkpoints/00000006/manifest.json")
    resumed = Toy()
    again = resumed.train(workdir)
    np.testing.assert_array_equal(weights(resumed), weights(whole))
    assert storage.read(f"{workdir}/metrics.jsonl") == (tmp_path / "metrics.jsonl").read_bytes()
    for name in ("seconds", "cpu_seconds"):  # of both sittings together, which write one checkpoint more
        assert again.pop(name) >= facts.pop(name)
    assert again == facts
    steps = [json.loads(line)["step"] for line in storage.read(f"{workdir}/times.jsonl").splitlines()]
    assert steps == list(range(2, NUM_STEPS + 1, 2))
    names = storage.names(workdir)
    assert names == ["checkpoints", "metrics.jsonl", "tensorboard", "times.jsonl"]
    assert not os.path.exists("ram:")


def test_a_damaged_best_step_gives_way_to_the_last(tmp_path, caplog):
    values = iter([1.0, 2.0, 3.0])
    Toy().train(tmp_path, evaluate=lambda: {"valid/loss": next(values)})
    next((tmp_path / "checkpoints" / "00000010").glob("model.data*")).write_bytes(b"")
    toy = Toy()
    facts = toy.train(tmp_path, evaluate=lambda: {"valid/loss": next(values)})
    assert (facts["step"], facts["best_step"], facts["best_value"]) == (NUM_STEPS, NUM_STEPS, 3.0)
    assert "00000010 is damaged" in caplog.text
    whole = Toy()
    whole.train(tmp_path / "whole", evaluate=None)
    np.testing.assert_array_equal(weights(toy), weights(whole))


def test_fewer_steps_than_were_made_are_refused(tmp_path):
    Toy().train(tmp_path)
    with pytest.raises(
        ValueError, match=r"`num_steps` must be at least .* reached, 20. Received: num_steps=10"
    ):
        Toy().train(tmp_path, num_steps=10)


def test_another_number_of_steps_per_call_is_refused(tmp_path):
    Toy().train(tmp_path, steps_per_call=2)
    with pytest.raises(
        ValueError, match=r"`steps_per_call` must be that of the run so far, 2. Received: .*=1"
    ):
        Toy().train(tmp_path, num_steps=40, steps_per_call=1)
    assert Toy().train(tmp_path, num_steps=40, steps_per_call=2)["step"] == 40


def test_every_step_has_its_own_seed(tmp_path):
    toy = Toy()

    def loss_fn(batch, seed=None):
        if seed is None:
            return toy.loss_fn(batch)
        halves = {f"seed_{i}": (tf.cast(seed[i] % 1000, tf.float32), 1.0) for i in range(2)}
        return {**toy.loss_fn(batch, seed), **halves}

    toy.train(tmp_path, loss_fn=loss_fn, steps_per_call=1, seed=3)
    rows = [row for row in lines(tmp_path / "metrics.jsonl") if "loss" in row]
    assert len({(row["seed_0"], row["seed_1"]) for row in rows}) == NUM_STEPS


def test_every_replica_has_its_own_seed(monkeypatch):
    """Or all would drop the same activations of their rows, and hide the same places."""
    toy, seeds = Toy(), set()
    replica = types.SimpleNamespace(all_reduce=lambda _, values: values)
    monkeypatch.setattr(tf.distribute, "get_replica_context", lambda: replica)
    optimizer = types.SimpleNamespace(learning_rate=0.1, apply=lambda *_: None)

    def loss_fn(batch, seed):
        seeds.add(tuple(seed.numpy().tolist()))
        return toy.loss_fn(batch, seed)

    step = graphs.replica_step(toy.strategy, toy.model, optimizer, loss_fn, clip_norm=0.0, seed=3)
    batches = next(iter(toy.dataset().batch(2)))
    for replica.replica_id_in_sync_group in range(2):
        for index in range(2):
            step(batches, index, 5)
    assert len(seeds) == 4


def test_evaluation_weighs_examples_not_batches():
    toy = Toy(dropout=0)
    rows = next(iter(toy.dataset().unbatch().batch(6)))
    uneven = tf.data.Dataset.from_tensor_slices(rows).batch(4)
    whole = tf.data.Dataset.from_tensors(rows)
    evaluation = graphs.evaluation(toy.strategy, toy.loss_fn)
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


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        *((name, 7, "a positive multiple of steps_per_call") for name in ("num_steps", "checkpoint_every")),
        *((name, 0, "a positive multiple of steps_per_call") for name in ("num_steps", "eval_every")),
        ("steps_per_call", 0, "an integer >= 1"),
        ("steps_per_call", 2.0, "an integer >= 1"),
        ("keep", 0, "an integer >= 1"),
        ("seed", -1, r"an integer in \[0, 2147483648\)"),
        *(("clip_norm", value, r"a number in \[0, inf\)") for value in (-1.0, math.nan, math.inf)),
    ],
)
def test_numbers_out_of_range_are_named(tmp_path, name, value, rule):
    with pytest.raises(ValueError, match=rf"^`{name}` must be {rule}. Received: {name}={value}"):
        Toy().train(tmp_path, **{name: value})
    assert not list(tmp_path.iterdir())


def test_data_that_end_are_named(tmp_path):
    toy = Toy()
    with pytest.raises(ValueError, match=r"`dataset` ended before step 20. Received: no batch at step 6"):
        toy.train(tmp_path, dataset=toy.dataset().take(7))


@pytest.mark.parametrize(
    ("kind", "message", "expected"),
    [
        (tf.errors.UnavailableError, "Error reported from /job:worker/task:1: the tasks have crashed", 1),
        (
            tf.errors.UnavailableError,
            "device_/job:worker/replica:0/task:0/device:CPU:0: remote target /job:worker/replica:0/task:2",
            2,
        ),
        (tf.errors.UnavailableError, "device_/job:worker/replica:0/task:0/device:CPU:0", None),
        (tf.errors.UnavailableError, "the network is gone", None),
        (tf.errors.InvalidArgumentError, "on /job:worker/task:1: a wrong shape", None),
    ],
)
def test_a_lost_worker_is_found_in_an_error(kind, message, expected, monkeypatch):
    task = {"cluster": {"worker": ["a:1", "b:1", "c:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(task))
    assert strategy_lib.lost_worker(kind(None, None, message)) == expected


@pytest.mark.parametrize(
    ("cluster", "task", "expected"),
    [
        ({"worker": ["a:1", "b:1"]}, {"type": "worker", "index": 1}, 1),
        ({"chief": ["a:1"], "worker": ["b:1"]}, {"type": "chief", "index": 0}, 0),
        ({"chief": ["a:1"], "worker": ["b:1"]}, {"type": "worker", "index": 0}, 1),
    ],
)
def test_the_number_of_a_worker_before_there_is_a_strategy(cluster, task, expected, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    assert strategy_lib.worker_index("multi_worker") == expected
    assert strategy_lib.worker_index("one_device") == 0


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"cluster": ["a:1"], "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:1"]}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 0}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": "first"}}',
    ],
)
def test_a_damaged_tf_config_is_named(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    message = f"needs TF_CONFIG, with a cluster and a task .* Received: TF_CONFIG={re.escape(repr(text))}$"
    for use in (strategy_lib.worker_index, strategy_lib.build):
        with pytest.raises(ValueError, match=message):
            use("multi_worker")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("gpu",),
            "`strategy` must be one of one_device, mirrored, multi_worker, tpu. Received: strategy='gpu'",
        ),
        (("mirrored", "my-tpu"), "`tpu` needs strategy='tpu'"),
        (("one_device", "", 2), "`num_virtual_devices` needs strategy='mirrored'"),
        (("mirrored", "", -1), "`num_virtual_devices` must be at least 0. Received: num_virtual_devices=-1"),
        (("multi_worker",), "needs TF_CONFIG.*Received: TF_CONFIG=None"),
    ],
)
def test_strategies_that_cannot_be_had(arguments, message, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(ValueError, match=message):
        strategy_lib.build(*arguments)
