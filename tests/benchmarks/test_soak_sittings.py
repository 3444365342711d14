"""A soak in several sittings is the same soak: it may be stopped or killed at any moment."""

import itertools
import json
import os
import pathlib
import shutil
import signal
import time

import h5py
import pytest
import tensorflow as tf

from benchmarks import pages, tiny_run
from benchmarks.soaking import page, sittings, training, training_run, trend
from benchmarks.soaking.outcome import Outcome
from tests.benchmarks import soaked_run
from tests.run_program import ROOT, Program

NAMES = ("killed", "clock_steps_back", "terminated", "checkpoint_cut")
STARTS = 6  # of processes: the first, one after each fault but the clock's, the last steps, the run alone
SEED = 1


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("template")
    tf.train.Checkpoint(v=tf.Variable(1.0)).write(str(folder / "model"))
    (folder / "preset").mkdir()
    with h5py.File(folder / "preset" / "model.weights.h5", "w") as file:
        file.create_dataset("layers/dense/0", data=[2.0])
    return folder


@pytest.fixture(autouse=True)
def _no_long_silence(monkeypatch):
    monkeypatch.setattr(training_run, "_QUIET_SECONDS", 0.05)


class KilledError(BaseException):
    """Stands for the end of the soak's own process."""


def soak(folder, template, stop_at=None, names=NAMES, minutes=0.0, seed=SEED):
    """A soak on fakes, which ends where it would start process number `stop_at`."""
    numbers = itertools.count(1)

    def started(*arguments):
        if next(numbers) == stop_at:
            raise KilledError
        return soaked_run.start(template, *arguments)

    return training.soak(folder, minutes, 0.02, seed, names, started, say=lambda text: None)


def saved_state(folder):
    (path,) = (folder / "saved").glob("[0-9]*")
    return path, json.loads((path / "state.json").read_text())


@pytest.mark.multiprocess
@pytest.mark.parametrize("stop_at", range(1, STARTS + 1))
def test_a_soak_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path, template, stop_at):
    with pytest.raises(KilledError):
        soak(tmp_path, template, stop_at)
    before = []
    if stop_at > 1:
        path, state = saved_state(tmp_path)
        before = state["outcome"]["events"]
        steps = sorted(int(each.name) for each in (path / "run" / "checkpoints").glob("[0-9]*"))
    alone = tmp_path / "alone"
    found = soak(tmp_path, template)
    assert found.all_problems() == []
    expected = list(itertools.islice(training.order(NAMES, SEED), len(NAMES)))
    assert [event.fault for event in found.events] == expected
    assert found.lives == STARTS - 1
    assert found.sittings == 1 + (stop_at > 1)
    moments = [event.seconds for event in found.events]
    assert moments == sorted(moments)
    assert found.seconds >= moments[-1]
    assert [event["seconds"] for event in before] == moments[: len(before)]
    if before and stop_at < STARTS - 1:  # the files of the run are those that the fault had left
        last = found.events[len(before) - 1]
        steps = steps[:-1] if last.fault == "checkpoint_cut" else steps
        assert last.resumed_at == max(steps, default=None)
    assert len(tiny_run.metrics_lines(alone)) == found.steps
    sittings.remove(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("alone", "alone.log", "disk", "faults", "faults.log", "faults.clock"),
    }


@pytest.mark.multiprocess
def test_the_minutes_of_earlier_sittings_count(tmp_path, template):
    names = ("killed", "terminated")
    with pytest.raises(KilledError):
        soak(tmp_path, template, 3, names, minutes=100.0)
    path, state = saved_state(tmp_path)
    seconds = state["outcome"]["seconds"] = state["outcome"]["seconds"] + 6000
    (path / "state.json").write_text(json.dumps(state))
    found = soak(tmp_path, template, 20, names, minutes=100.0)  # would have more faults for 100 minutes
    assert [event.fault for event in found.events] == list(
        itertools.islice(training.order(names, SEED), len(names))
    )
    assert found.seconds >= seconds


@pytest.mark.multiprocess
def test_the_run_alone_goes_on_too(tmp_path, template):
    """Its directory stays, and its first process counts for the memory if that was the longest."""
    with pytest.raises(KilledError):
        soak(tmp_path, template, STARTS)
    path, state = saved_state(tmp_path)
    rows = [{"run": "alone", "life": 1, "seconds": 1000.0 * i} for i in (1, 2)]
    state["outcome"]["alone_rows"] = rows
    (path / "state.json").write_text(json.dumps(state))
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "mark").touch()
    found = soak(tmp_path, template)
    assert (tmp_path / "alone" / "mark").exists()
    assert found.alone_rows[:2] == rows
    assert all(row["life"] == 2 for row in found.alone_rows[2:])
    assert trend.longest_life(found.alone_rows) == rows


@pytest.mark.multiprocess
def test_what_an_earlier_sitting_has_found_wrong_at_the_end_stays(tmp_path, template):
    with pytest.raises(KilledError):
        soak(tmp_path, template, STARTS)
    path, state = saved_state(tmp_path)
    state["outcome"]["problems"] = ["metrics.jsonl is half-written"]
    (path / "state.json").write_text(json.dumps(state))
    assert soak(tmp_path, template).problems == ["metrics.jsonl is half-written"]


def files(folder):
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.is_file() and path.read_bytes())
        for path in folder.rglob("*")
    }


@pytest.mark.multiprocess
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seed": 12}, "`--seed` must be the one that the soak in {} began with, 1. Received: 12"),
        (
            {"names": NAMES[:2]},
            "`--faults` must be the ones that the soak in {} began with, "
            "killed,clock_steps_back,terminated,checkpoint_cut. Received: killed,clock_steps_back",
        ),
    ],
)
def test_another_seed_and_other_faults_are_refused_before_anything_is_touched(
    tmp_path, template, changed, message
):
    with pytest.raises(KilledError):
        soak(tmp_path, template, 2)
    before = files(tmp_path)
    with pytest.raises(ValueError) as caught:
        soak(tmp_path, template, **changed)
    assert str(caught.value) == message.format(tmp_path)
    assert files(tmp_path) == before


@pytest.mark.multiprocess
def test_a_machine_where_less_can_be_made_is_refused(tmp_path, template):
    """The tests have no disk of their own, which could be full. A soak that never had one goes on."""
    names = ("killed", "full_disk")
    for stop_at in (2, 1):
        with pytest.raises(KilledError):
            soak(tmp_path, template, stop_at, names)
    path, state = saved_state(tmp_path)
    assert list(state["outcome"]["refused"]) == ["full_disk"]
    state["outcome"]["refused"] = {}
    (path / "state.json").write_text(json.dumps(state))
    with pytest.raises(ValueError, match=r"must continue where full_disk can be made, as before\. "):
        soak(tmp_path, template, names=names)


@pytest.mark.slow
@pytest.mark.multiprocess
def test_the_command_is_killed_stopped_and_finished(tmp_path, template):
    """By its signals, on fakes."""
    command = ["tests.benchmarks.soak_of_fakes", "--what=training", "--minutes=0", "--seconds_between=0.5"]
    command += [f"--seed={SEED}", f"--faults={','.join(NAMES)}", f"--workdir={tmp_path}"]
    folder, log = tmp_path / "training", tmp_path / "log"
    for number, signum, code in ((1, signal.SIGKILL, -9), (2, signal.SIGTERM, 143), (None, None, 0)):
        with open(log, "wb") as file:
            program = Program(
                *command,
                environment={**os.environ, "SOAK_TEMPLATE": str(template)},
                stdout=file,
                stderr=file,
            )
        try:
            while number and not (folder / "saved" / f"{number:08d}").exists():
                assert program.poll() is None, log.read_text()
                time.sleep(0.01)
            if signum:
                program.send_signal(signum)
            assert program.wait(120) == code, log.read_text()
        finally:
            program.kill()
        if code == 143:
            words = "stopped by SIGTERM; the same command continues the soak after fault "
            assert log.read_text().splitlines()[-1].startswith(words)
    result = json.loads((folder / "result.json").read_text())
    expected = list(itertools.islice(training.order(NAMES, SEED), len(NAMES)))
    assert [event["fault"] for event in result["events"]] == expected
    assert result["sittings"] == 3
    assert not (folder / "saved").exists()
    assert "in 3 sittings (seed 1)" in log.read_text()


def test_memory_is_that_of_the_process_that_was_sampled_longest(tmp_path):
    """Each process starts from little memory, which is no growth."""

    def life(number, start, count):
        return [
            {"life": number, "seconds": start + 5.0 * i, "memory_mb": 500.0 + 100.0 * number}
            for i in range(count)
        ]

    rows = life(1, 0.0, 40) + life(2, 900.0, 720) + life(3, 4600.0, 300)
    assert trend.longest_life(rows) == rows[40:760]
    assert trend.longest_life([]) == []
    outcome = Outcome(alone_rows=rows, sittings=2)
    result = page.training_result(outcome, tmp_path, SEED, about={})
    assert result["memory_alone"] == {"mb_per_hour": 0.0, "low": 0.0, "high": 0.0, "verdict": "constant"}


def test_the_page_is_the_one_of_its_results(tmp_path):
    """Results that were written before there were sittings are read too."""
    docs = pathlib.Path(ROOT) / "docs"
    shutil.copy(docs / "soak.md", tmp_path)
    results = json.loads((docs / "soak.json").read_text())
    pages.replace_generated(tmp_path / "soak.md", page.BEGIN, page.text(results))
    assert (tmp_path / "soak.md").read_text() == (docs / "soak.md").read_text()
    once = {key: value for key, value in results["training"].items() if key != "sittings"}
    assert page.text({"training": {**once, "sittings": 1}}) == page.text({"training": once})
    assert "minutes with faults in 3 sittings (seed" in page.text({"training": {**once, "sittings": 3}})
