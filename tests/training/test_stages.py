"""Stages of the loop: the data change at a step, and a run that was stopped there is the same run."""

import json
import os
import signal

import numpy as np
import pytest

from convnlp.training import metrics, stages, stopping
from tests.training.toy import BATCH, LENGTH, NUM_STEPS, Toy


def weights(toy):
    return np.concatenate([v.numpy().ravel() for v in toy.model.variables])


def losses(workdir):
    rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if "loss" in row]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of three stages that was left alone: its directory and its weights."""
    workdir, toy = tmp_path_factory.mktemp("whole"), Toy()
    toy.train(workdir, later_stages=toy.later_stages())
    return workdir, weights(toy)


def test_each_stage_reads_its_own_data_from_the_beginning(whole):
    toy, per_step = Toy(), []
    for dataset, steps in (
        (toy.dataset(), 8),
        (toy.dataset(length=6, batch_size=16), 6),
        (toy.dataset(7, length=6), 6),
    ):
        per_step += [int(batch["padding_mask"].numpy().sum()) for batch in dataset.take(steps)]
    expected = np.cumsum(np.reshape(per_step, [-1, 2]).sum(1))
    assert [row["tokens"] for row in losses(whole[0])] == expected.tolist()
    assert expected[-1] > 1.5 * NUM_STEPS * BATCH * (LENGTH - 1)


def test_the_first_stage_is_the_run_without_stages(whole, tmp_path):
    Toy().train(tmp_path)
    assert losses(tmp_path)[:4] == losses(whole[0])[:4]
    assert losses(tmp_path)[4] != losses(whole[0])[4]


def stopped_at(monkeypatch, step):
    """Sends this process SIGTERM when the metrics of that step are written."""
    write = metrics.Metrics.write

    def write_and_signal(self, at, values, *args):
        write(self, at, values, *args)
        if at == step and "loss" in values:  # not with those of an evaluation too
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(metrics.Metrics, "write", write_and_signal)


def test_stopped_before_at_and_behind_the_boundaries_not_a_bit_differs(whole, tmp_path, monkeypatch):
    for step in (6, 8, 10, 14, 18):
        toy = Toy()
        with monkeypatch.context() as patch:
            stopped_at(patch, step)
            with pytest.raises(stopping.StoppedError, match=f"step {step}"):
                toy.train(tmp_path, later_stages=toy.later_stages())
    resumed = Toy()
    facts = resumed.train(tmp_path, later_stages=resumed.later_stages())
    assert "stage" not in facts
    np.testing.assert_array_equal(weights(resumed), whole[1])
    assert (tmp_path / "metrics.jsonl").read_bytes() == (whole[0] / "metrics.jsonl").read_bytes()


def test_a_later_boundary_may_move_and_that_of_a_stage_begun_may_not(tmp_path, monkeypatch):
    toy = Toy()
    with monkeypatch.context() as patch:
        stopped_at(patch, 10)
        with pytest.raises(stopping.StoppedError):
            toy.train(tmp_path, later_stages=toy.later_stages())
    middle, last = toy.later_stages()
    with pytest.raises(ValueError, match=r"must keep step 10 in stage 1, .* Received: .*\[0, 12, 14\]"):
        Toy().train(tmp_path, later_stages=[middle._replace(first_step=12), last])
    with pytest.raises(ValueError, match=r"must keep step 10 in stage 1, .* Received: .*\[0, 8, 10\]"):
        Toy().train(tmp_path, later_stages=[middle, last._replace(first_step=10)])
    again = Toy()
    middle, last = again.later_stages()
    assert again.train(tmp_path, later_stages=[middle, last._replace(first_step=18)])["step"] == NUM_STEPS


def test_a_run_that_knew_no_stages_is_in_the_first():
    reader = stages.Reader([stages.Stage(step, None, None) for step in (0, 8)], 2, 0, 1)
    with pytest.raises(ValueError, match=r"must keep step 10 in stage 0, .* Received: .*\[0, 8\]"):
        reader.begin(10, {"best_step": None})


@pytest.mark.parametrize("first_steps", [(0,), (7,), (8, 8), (12, 8), (NUM_STEPS,)])
def test_stages_that_are_none(tmp_path, first_steps):
    toy = Toy()
    later = [toy.later_stages()[0]._replace(first_step=step) for step in first_steps]
    with pytest.raises(
        ValueError, match=r"^`later_stages` must begin at increasing multiples of steps_per_call"
    ):
        toy.train(tmp_path, later_stages=later)
    assert not list(tmp_path.iterdir())
