"""Checkpoints: what is kept, what is noticed, what is refused."""

import contextlib
import json
import resource
import subprocess

import numpy as np
import pytest

from convnlp.training import checkpoints as checkpoints_lib
from convnlp.training import optimizers
from tests.training.toy import Toy


class Run:
    """A toy whose weights all are the step's number when a checkpoint is saved."""

    def __init__(self, workdir, keep=3):
        self.toy = Toy()
        with self.toy.strategy.scope():
            optimizers.build_slots(self.toy.optimizer, self.toy.model.trainable_variables)
        self.iterator = iter(self.toy.dataset())
        self.checkpoints = checkpoints_lib.Checkpoints(
            workdir, self.toy.model, self.toy.optimizer, self.iterator, self.toy.strategy, keep
        )

    def save(self, *steps, **facts):
        for step in steps:
            for variable in self.toy.model.variables:
                variable.assign(np.full(variable.shape, step))
            self.checkpoints.save(step, {"tokens": step, **facts})

    def weight(self):
        return float(np.unique(self.toy.head.kernel.numpy()).item())


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


def test_restores_weights_slots_iterator_and_facts(tmp_path, run):
    next(run.iterator)
    run.toy.optimizer.iterations.assign(7)
    run.save(5)
    expected = next(run.iterator)
    other = Run(tmp_path)
    assert other.checkpoints.restore() == (5, {"tokens": 5})
    assert other.weight() == 5
    assert int(other.toy.optimizer.iterations.numpy()) == 7
    np.testing.assert_array_equal(next(other.iterator)["token_ids"], expected["token_ids"])


def test_a_new_directory_starts_at_zero(run):
    assert run.checkpoints.restore() == (0, {})


def test_keeps_the_last_and_the_best(tmp_path):
    run = Run(tmp_path, keep=2)
    run.save(1)
    run.save(2, 3, 4, 5, best_step=2)
    assert run.checkpoints.steps() == [2, 4, 5]
    run.save(6, best_step=6)
    assert run.checkpoints.steps() == [5, 6]


def damage_truncate(path):
    data = next(path.glob("model.data*"))
    data.write_bytes(data.read_bytes()[:-10])


def damage_flip(path):
    data = next(path.glob("model.data*"))
    content = bytearray(data.read_bytes())
    content[100] ^= 1
    data.write_bytes(content)


def damage_missing(path):
    next(path.glob("iterator*.index")).unlink()


def damage_manifest(path):
    (path / "manifest.json").write_text('{"step": 2')


DAMAGES = [damage_truncate, damage_flip, damage_missing, damage_manifest]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_is_reported_and_the_one_before_used(tmp_path, run, damage, caplog):
    run.save(1, 2)
    damage(tmp_path / "checkpoints" / "00000002")
    assert run.checkpoints.restore() == (1, {"tokens": 1})
    assert run.weight() == 1
    assert "00000002 is damaged" in caplog.text
    assert "Using the checkpoint of step 1" in caplog.text
    assert run.checkpoints.steps() == [1]
    assert (tmp_path / "checkpoints" / "damaged-00000002").exists()


def test_nothing_starts_over_silently_when_all_are_damaged(tmp_path, run):
    run.save(1)
    damage_flip(tmp_path / "checkpoints" / "00000001")
    with pytest.raises(checkpoints_lib.CheckpointError, match=r"every checkpoint .* is damaged .*model.data"):
        run.checkpoints.restore()


def test_leftovers_of_a_killed_process_are_removed(tmp_path, run):
    run.save(1)
    (tmp_path / "checkpoints" / ".00000002").mkdir()
    assert Run(tmp_path).checkpoints.steps() == [1]
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["00000001"]


@contextlib.contextmanager
def full_disk(directory):
    """A file system of 64 kB at `directory`; without the right to mount one, a limit on a file's size."""
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(directory)]
    if subprocess.run(mount, capture_output=True, check=False).returncode == 0:
        try:
            yield (directory / "filler").write_bytes
        finally:
            subprocess.run(["umount", str(directory)], check=True)
    else:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            yield lambda _: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_leaves_the_previous_checkpoint(tmp_path):
    with full_disk(tmp_path / "disk") as fill:
        run = Run(tmp_path / "disk")
        run.save(1)
        with contextlib.suppress(OSError):
            fill(bytes(1 << 20))
        message = r"no checkpoint of step 2 in .*: .*; the one of step 1 is intact"
        with pytest.raises(checkpoints_lib.CheckpointError, match=message) as caught:
            run.save(2)
        assert "\n" not in str(caught.value)
        assert [path.name for path in (tmp_path / "disk" / "checkpoints").iterdir()] == ["00000001"]
        assert run.checkpoints.restore()[0] == 1


def test_another_config_is_refused_with_the_difference(tmp_path, run):
    config = {"model": {"mixer": "lightweight_conv", "kernel_size": (3, 7)}, "seed": 0}
    checkpoints_lib.check_config(tmp_path, {"seed": 1})  # no checkpoint: a mistake that can be corrected
    checkpoints_lib.check_config(tmp_path, config)
    run.save(1)
    checkpoints_lib.check_config(tmp_path, config)
    changed = {"model": {"mixer": "dynamic_conv", "kernel_size": (3, 7)}, "seed": 0, "new": 1}
    message = r"another config \(model.mixer: 'lightweight_conv' -> 'dynamic_conv'; new: 'absent' -> 1\)"
    with pytest.raises(ValueError, match=message):
        checkpoints_lib.check_config(tmp_path, changed)
    assert json.loads((tmp_path / "config.json").read_text())["model"]["mixer"] == "lightweight_conv"


def test_keep_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match=r"`keep` must be at least 1. Received: keep=0"):
        Run(tmp_path, keep=0)
