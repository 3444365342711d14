"""`kill -9` at the worst moments, and the same command again: not a bit differs from a run left alone."""

import json
import os
import pathlib
import signal

import numpy as np
import pytest
import tensorflow as tf

from convnlp.data import Source, token_cache
from convnlp.launching import cluster
from convnlp.training import checkpoints
from tests.data import huge_cache
from tests.run_program import Program
from tests.training.toy import BATCH, LENGTH, NUM_STEPS

pytestmark = pytest.mark.multiprocess

# When metrics are written that the next checkpoint would have covered; before the manifest of a checkpoint;
# in one of the renames of saving and removing; before old ones are removed.
MOMENTS = ("write:4", "write_json:2", "rename:4", "_prune:1")


def start(strategy, workdir, moment="", environment=None, dropout=0.1, extras=""):
    """A process of a toy; errors go to WORKDIR.log."""
    arguments = [strategy, workdir, dropout, moment, extras]
    environment = {**os.environ, **(environment or {})}
    with open(f"{workdir}.log", "a", encoding="utf-8") as log:
        return Program("tests.training.toy", *arguments, environment=environment, stderr=log)


def finish(*processes, workdir):
    """Waits for processes that have to succeed."""
    codes = [process.wait(timeout=300) for process in processes]
    assert codes == [0] * len(processes), pathlib.Path(f"{workdir}.log").read_text()[-2000:]


def state(workdir):
    """Every value of the last checkpoint, by name, and the metrics."""
    last = workdir / "checkpoints" / f"{NUM_STEPS:08d}" / "model"
    return values(last), (workdir / "metrics.jsonl").read_bytes()


def values(checkpoint):
    """Name -> bytes, of all tensors."""
    reader = tf.train.load_checkpoint(str(checkpoint))
    names = [name for name in reader.get_variable_to_shape_map() if not name.startswith("_CHECKPOINTABLE")]
    return {name: np.asarray(reader.get_tensor(name)).tobytes() for name in names}


def run_whole(strategy, workdir, **arguments):
    finish(start(strategy, workdir, **arguments), workdir=workdir)


def run_killed(strategy, workdir, moments, extras=""):
    for moment in moments:
        process = start(strategy, workdir, moment, extras=extras)
        assert process.wait(timeout=300) == -signal.SIGKILL, moment
    finish(start(strategy, workdir, extras=extras), workdir=workdir)


def assert_same_state(workdir, other):
    (ours, metrics), (others, other_metrics) = state(workdir), state(other)
    assert len(ours) > 8  # weights, two slots each, the step
    assert {name for name in ours if ours[name] != others[name]} == set()
    assert metrics == other_metrics
    assert len(metrics.splitlines()) == NUM_STEPS // 2 + 2


def test_one_device(tmp_path):
    run_whole("one_device", tmp_path / "whole")
    run_killed("one_device", tmp_path / "killed", MOMENTS[:2])
    assert_same_state(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.slow
def test_one_device_at_the_other_moments(tmp_path):
    run_whole("one_device", tmp_path / "whole")
    run_killed("one_device", tmp_path / "killed", MOMENTS[2:])
    assert_same_state(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.slow
def test_two_mirrored_devices(tmp_path):
    run_whole("mirrored", tmp_path / "whole")
    run_killed("mirrored", tmp_path / "killed", MOMENTS)
    assert_same_state(tmp_path / "whole", tmp_path / "killed")


# In the checkpoint at the first boundary between two stages, and with the first metrics of the second stage.
BOUNDARY = ("rename:4", "write:3")


@pytest.mark.parametrize("strategy", ["one_device", pytest.param("mirrored", marks=pytest.mark.slow)])
def test_with_all_extras(tmp_path, strategy):
    run_whole(strategy, tmp_path / "whole", extras="extras")
    run_killed(strategy, tmp_path / "killed", BOUNDARY, "extras")
    assert_same_state(tmp_path / "whole", tmp_path / "killed")


def test_two_mirrored_devices_train_as_one(tmp_path):
    """Rows of a batch have different numbers of pads, so a mean of the replicas' means would show."""
    for strategy in ("one_device", "mirrored"):
        run_whole(strategy, tmp_path / strategy, dropout=0)
    one, two = (
        [json.loads(line) for line in (tmp_path / strategy / "metrics.jsonl").read_text().splitlines()]
        for strategy in ("one_device", "mirrored")
    )
    for row, other in zip(one, two, strict=True):
        assert row == pytest.approx(other, rel=1e-4)  # the sums are taken in another order, 20 steps long


@pytest.fixture(scope="module")
def huge(tmp_path_factory):
    """The source of a token cache of 10^8 documents."""
    return huge_cache.write(tmp_path_factory.mktemp("huge") / "cache")


def places_read(workdir, source):
    """The places in the order of the training whose rows the last process has read, sorted."""
    starts = token_cache.Rows(token_cache.TokenCache(Source(source)), LENGTH, 1).starts(range(10_000))
    places = {start: place for place, start in enumerate(starts.tolist())}
    return sorted(places[int(line)] for line in pathlib.Path(f"{workdir}.reads-0").read_text().splitlines())


def test_a_token_cache_is_read_from_where_the_run_stood(tmp_path, huge):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run_whole("one_device", whole, extras=huge)
    assert start("one_device", killed, "rename:4", extras=huge).wait(timeout=300) == -signal.SIGKILL
    step = checkpoints.steps(str(killed))[-1]
    finish(start("one_device", killed, extras=huge), workdir=killed)
    assert_same_state(whole, killed)
    assert 0 < step < NUM_STEPS
    for workdir, first in ((whole, 0), (killed, step)):
        places = places_read(workdir, huge)
        # From where the checkpoint stands, nothing before it, and each row once; some are read ahead.
        assert places[: (NUM_STEPS - first) * BATCH] == list(range(first * BATCH, NUM_STEPS * BATCH))
        assert len(places) < (NUM_STEPS + 200) * BATCH


def start_workers(workdir, killed=None, moment="", extras="", number=2, dropout=0.1):
    """Worker processes; `killed` is the index of the one that dies at `moment`."""
    addresses = cluster.loopback(number)
    return [
        start(
            "multi_worker",
            workdir,
            moment if index == killed else "",
            {"TF_CONFIG": cluster.tf_config(addresses, index)},
            dropout=dropout,
            extras=extras,
        )
        for index in range(number)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("killed", "moment", "extras"),
    [(0, "write_json:2", ""), (0, "rename:4", ""), (1, "write:5", ""), (0, "rename:4", "extras")],
)
def test_two_worker_processes(tmp_path, killed, moment, extras):
    finish(*start_workers(tmp_path / "whole", extras=extras), workdir=tmp_path / "whole")
    workers = start_workers(tmp_path / "killed", killed, moment, extras)
    assert workers[killed].wait(timeout=300) == -signal.SIGKILL
    workers[1 - killed].kill()  # it waits for the other one
    workers[1 - killed].wait(timeout=300)
    finish(*start_workers(tmp_path / "killed", extras=extras), workdir=tmp_path / "killed")
    assert_same_state(tmp_path / "whole", tmp_path / "killed")
    files = {
        path.name for path in pathlib.Path(tmp_path / "killed" / "checkpoints" / f"{NUM_STEPS:08d}").iterdir()
    }
    assert {"iterator-0.index", "iterator-1.index"} < files


@pytest.mark.slow
@pytest.mark.parametrize("data", ["text", "tokens"])
def test_another_number_of_workers_goes_on_with_the_same_batches(tmp_path, huge, data):
    """Without dropout, which differs from replica to replica, only the order of sums is another one."""
    extras = huge if data == "tokens" else ""
    finish(*start_workers(tmp_path / "whole", dropout=0, extras=extras), workdir=tmp_path / "whole")
    for number, moment in ((2, "rename:4"), (4, "_prune:2")):
        workers = start_workers(tmp_path / "changed", 0, moment, number=number, dropout=0, extras=extras)
        assert workers[0].wait(timeout=300) == -signal.SIGKILL
        for worker in workers[1:]:  # which wait for it
            worker.kill()
            worker.wait(timeout=300)
    (last,) = start_workers(tmp_path / "changed", number=1, dropout=0, extras=extras)
    finish(last, workdir=tmp_path / "changed")
    folder = tmp_path / "changed" / "checkpoints" / f"{NUM_STEPS:08d}"
    assert {"iterator-0.index", "iterator-1.index"} < {path.name for path in folder.iterdir()}
    rows, others = (
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("whole", "changed")
    )
    assert len(rows) == len(others) == NUM_STEPS // 2 + 2
    for row, other in zip(rows, others, strict=True):
        assert other == pytest.approx(row, rel=1e-4)  # as of two devices and one, above
        assert other.get("tokens") == row.get("tokens")
