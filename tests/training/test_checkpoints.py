"""Checkpoints: what is kept, what is noticed, what is refused."""

import contextlib
import errno
import json
import resource
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from convnlp.training import checkpoints as checkpoints_lib
from convnlp.training import finite, optimizers, shards, storage, strategy
from tests import remote
from tests.training.toy import Toy


class Run:
    """A toy whose weights all are the step's number when a checkpoint is saved."""

    def __init__(self, workdir, keep=3):
        self.toy = Toy()
        with self.toy.strategy.scope():
            optimizers.build_slots(self.toy.optimizer, self.toy.model.trainable_variables)
        self.batches = shards.Batches(self.toy.dataset(), 1, 0, 1)
        self.checkpoints = checkpoints_lib.Checkpoints(
            workdir, self.toy.model, self.toy.optimizer, self.toy.strategy, keep
        )
        self.checkpoints.read_from(self.batches)

    def save(self, *steps, **facts):
        for step in steps:
            for variable in self.toy.model.variables:
                variable.assign(np.full(variable.shape, step))
            self.checkpoints.save(step, {"tokens": step, **facts})

    def restore(self):
        return self.checkpoints.restore(lambda step, progress: self.batches)

    def weight(self):
        return float(np.unique(self.toy.head.kernel.numpy()).item())


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


def test_restores_weights_slots_iterator_and_facts(tmp_path, run):
    next(run.batches)
    run.toy.optimizer.iterations.assign(7)
    run.save(5)
    expected = next(run.batches)
    other = Run(tmp_path)
    assert other.restore() == (5, {"tokens": 5})
    assert other.weight() == 5
    assert int(other.toy.optimizer.iterations.numpy()) == 7
    np.testing.assert_array_equal(next(other.batches)["token_ids"], expected["token_ids"])


def test_a_new_directory_starts_at_zero(run):
    assert run.restore() == (0, {})


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


def damage_no_object(path):
    (path / "manifest.json").write_text("[]")


def damage_facts(path):
    """One digit of what the manifest says of the run."""
    text = (path / "manifest.json").read_text()
    assert text.count('"tokens": 2') == 1
    (path / "manifest.json").write_text(text.replace('"tokens": 2', '"tokens": 3'))


def damage_name_of_the_sum(path):
    """The manifest of version 0.1.0 had no sum, and this one must not pass for one of those."""
    text = (path / "manifest.json").read_text()
    assert text.count('"sha256"') > 1
    at = text.rindex('"sha256"')
    text = text[:at] + '"sha257"' + text[at + 8 :]
    (path / "manifest.json").write_text(text.replace('"tokens": 2', '"tokens": 3'))


def damage_another_step(path):
    shutil.copy(path.parent / "00000001" / "manifest.json", path / "manifest.json")


DAMAGES = [
    damage_truncate,
    damage_flip,
    damage_missing,
    damage_manifest,
    damage_no_object,
    damage_facts,
    damage_name_of_the_sum,
    damage_another_step,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_is_reported_and_the_one_before_used(tmp_path, run, damage, caplog):
    run.save(1, 2)
    damage(tmp_path / "checkpoints" / "00000002")
    assert run.restore() == (1, {"tokens": 1})
    assert run.weight() == 1
    assert "00000002 is damaged" in caplog.text
    assert "Using the checkpoint of step 1" in caplog.text
    assert run.checkpoints.steps() == [1]
    assert (tmp_path / "checkpoints" / "damaged-00000002").exists()


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files"),
        PermissionError(errno.EACCES, "Permission denied"),
        tf.errors.UnavailableError(None, None, "no network"),
        tf.errors.FailedPreconditionError(None, None, "Could not resolve hostname"),
    ],
)
def test_what_cannot_be_read_just_now_is_not_damaged(tmp_path, run, monkeypatch, error):
    """An older checkpoint in its place would throw steps away, and so would the last weights for the best."""
    run.save(1, 2)
    with monkeypatch.context() as patch:
        patch.setattr(storage, "fingerprint", failing(storage.fingerprint, error))
        for read in (run.restore, lambda: run.checkpoints.restore_variables(2)):
            with pytest.raises(type(error)) as caught:
                read()
            assert caught.value is error
    assert run.restore()[0] == 2


def test_no_checkpoint_is_overlooked_while_there_is_no_network(monkeypatch):
    """The run would begin again, and its config and metrics would be overwritten."""
    workdir = remote.url("checkpoints/unreachable")
    Run(workdir).save(1)

    def fail(path):
        raise tf.errors.UnavailableError(None, None, "no network")

    def missing(path):
        raise tf.errors.NotFoundError(None, None, "not found")

    with monkeypatch.context() as patch:
        patch.setattr(storage.gfile, "isdir", lambda path: False)  # as it says then
        assert checkpoints_lib.steps(workdir) == [1]
        patch.setattr(storage.gfile, "listdir", missing)  # as it says then, too
        patch.setattr(storage.gfile, "exists", fail)
        with pytest.raises(tf.errors.UnavailableError):
            checkpoints_lib.steps(workdir)
        patch.setattr(storage.gfile, "listdir", fail)
        with pytest.raises(tf.errors.UnavailableError):
            checkpoints_lib.steps(workdir)
    with monkeypatch.context() as patch:
        patch.setattr(storage, "read", fail)
        with pytest.raises(tf.errors.UnavailableError):
            checkpoints_lib.num_shards(workdir)
    assert checkpoints_lib.num_shards(workdir) == 1


def test_a_sector_that_cannot_be_read_is_damage(tmp_path, run, monkeypatch):
    run.save(1, 2)
    broken = failing(storage.fingerprint, OSError(errno.EIO, "Input/output error"))
    monkeypatch.setattr(storage, "fingerprint", broken)
    assert run.restore()[0] == 1


def failing(fingerprint, error):
    """`storage.fingerprint`, which fails for the files of step 2."""

    def read(path):
        if "/00000002/" in path:
            raise error
        return fingerprint(path)

    return read


def test_nothing_starts_over_silently_when_all_are_damaged(tmp_path, run):
    run.save(1)
    damage_flip(tmp_path / "checkpoints" / "00000001")
    with pytest.raises(checkpoints_lib.CheckpointError, match=r"every checkpoint .* is damaged .*model.data"):
        run.restore()


def test_leftovers_of_a_killed_process_are_removed(tmp_path, run):
    run.save(1)
    (tmp_path / "checkpoints" / ".00000002").mkdir()
    assert Run(tmp_path).checkpoints.steps() == [1]
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["00000001"]


def test_a_manifest_of_version_0_1_0_has_no_sum(tmp_path, run):
    run.save(1)
    path = tmp_path / "checkpoints" / "00000001" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["sha256"]
    path.write_text(json.dumps(manifest))
    assert run.restore() == (1, {"tokens": 1})


def test_strangers_are_left_alone_and_named(tmp_path, run, caplog):
    run.save(60)
    directory = tmp_path / "checkpoints"
    (directory / ".DS_Store").write_bytes(b"finder")
    (directory / ".nfs0000000001").write_bytes(b"open elsewhere")
    (directory / "00000060.bak").mkdir()
    (directory / "00000060.bak" / "model.index").write_bytes(b"mine")
    (directory / "00000070").write_text("a file")
    (directory / "000000080").mkdir()
    other = Run(tmp_path, keep=1)
    assert other.restore() == (60, {"tokens": 60})
    other.save(80)
    assert other.checkpoints.steps() == [80]
    left = {".DS_Store", ".nfs0000000001", "00000060.bak", "00000070", "000000080", "00000080"}
    assert {path.name for path in directory.iterdir()} == left
    assert (directory / "00000060.bak" / "model.index").read_bytes() == b"mine"
    for name in left - {"000000080", "00000080"}:
        assert name in caplog.text


def test_files_of_others_in_a_checkpoint_do_not_count(tmp_path, run, monkeypatch):
    write = run.checkpoints._variables.write

    def write_and_litter(path):
        write(path)
        (tmp_path / "checkpoints" / ".00000001" / ".nfs01").write_bytes(b"gone soon")

    monkeypatch.setattr(run.checkpoints._variables, "write", write_and_litter)
    run.save(1)
    (tmp_path / "checkpoints" / "00000001" / ".nfs01").unlink()
    assert run.restore()[0] == 1


def test_a_damaged_best_is_reported_and_the_newest_used(tmp_path, run, caplog):
    run.save(1, best_step=1, best_value=0.5)
    run.save(2, 3, best_step=1, best_value=0.5)
    damage_flip(tmp_path / "checkpoints" / "00000001")
    assert run.restore() == (3, {"tokens": 3, "best_step": None, "best_value": None})
    assert "00000001 is damaged" in caplog.text
    assert (tmp_path / "checkpoints" / "damaged-00000001").exists()
    assert run.checkpoints.steps() == [2, 3]


def test_a_best_that_is_damaged_while_training_is_not_read(tmp_path, run, caplog):
    run.save(1, 2)
    damage_missing(tmp_path / "checkpoints" / "00000001")
    assert not run.checkpoints.restore_variables(1)
    assert run.weight() == 2
    assert "is missing" in caplog.text
    assert run.checkpoints.restore_variables(2)


def test_what_was_set_aside_stays(tmp_path, run):
    for _ in range(2):
        run.save(1, 2)
        damage_flip(tmp_path / "checkpoints" / "00000002")
        run.restore()
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert names == {"00000001", "damaged-00000002", "damaged-00000002-2"}


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_values_that_are_not_finite_are_never_saved(tmp_path, run, value):
    run.save(1)
    run.toy.head.kernel.assign(np.full(run.toy.head.kernel.shape, 1.0))
    run.toy.head.bias.assign(np.where(np.arange(len(run.toy.head.bias.numpy())) == 3, value, 0.0))
    message = (
        r"no checkpoint of step 2: the weights are not finite \(first: .*bias\); the one of step 1 is intact"
    )
    with pytest.raises(finite.NonFiniteError, match=message):
        run.checkpoints.save(2, {})
    run.save(3)
    slot = next(v for v in run.toy.optimizer.variables if v.path.endswith("velocity"))
    slot.assign(np.full(slot.shape, value))
    with pytest.raises(finite.NonFiniteError, match="velocity"):
        run.checkpoints.save(4, {})
    assert run.checkpoints.steps() == [1, 3]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["00000001", "00000003"]


def test_behind_a_url_a_directory_without_a_manifest_is_none():
    workdir = remote.url("checkpoints/run")
    run = Run(workdir, keep=2)
    run.save(1, 2, 3, best_step=1)
    assert run.checkpoints.steps() == [1, 2, 3]
    storage.gfile.remove(f"{workdir}/checkpoints/00000003/manifest.json")  # killed before it was written
    other = Run(workdir, keep=2)
    assert storage.names(f"{workdir}/checkpoints") == ["00000001", "00000002"]
    assert other.restore() == (2, {"tokens": 2, "best_step": 1})
    assert other.weight() == 2
    other.save(3, best_step=3)
    assert other.checkpoints.steps() == [2, 3]
    storage.write(f"{workdir}/checkpoints/00000003/model.index", b"damaged")
    assert Run(workdir).restore()[0] == 2
    names = storage.names(f"{workdir}/checkpoints")
    assert "damaged-00000003" in names
    assert storage.read(f"{workdir}/checkpoints/damaged-00000003/model.index") == b"damaged"


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
        assert "function_node" not in str(caught.value)
        assert [path.name for path in (tmp_path / "disk" / "checkpoints").iterdir()] == ["00000001"]
        assert run.restore()[0] == 1


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_checkpoint_stands_though_those_before_it_cannot_be_removed(
    tmp_path, monkeypatch, caplog, is_remote
):
    workdir = remote.url("checkpoints/crowded") if is_remote else str(tmp_path)
    run = Run(workdir, keep=1)
    run.save(1)
    with monkeypatch.context() as patched:
        patched.setattr(storage, "names", unlisted(storage.names))
        run.save(2)
        with pytest.raises(finite.NonFiniteError, match=r"what is there cannot be read now$"):
            run.save(np.nan)
    assert f"Could not remove old checkpoints from {workdir}/checkpoints: no network" in caplog.text
    assert Run(workdir).restore()[0] == 2
    run.save(3)
    assert run.checkpoints.steps() == [3]


def test_a_checkpoint_that_the_network_refuses_can_be_tried_again(tmp_path, run, monkeypatch):
    """`convnlp launch` starts the workers anew after an exit code that says so."""

    def write_json(path, value):
        raise tf.errors.UnavailableError(None, None, "no network")

    monkeypatch.setattr(storage, "write_json", write_json)
    with pytest.raises(
        checkpoints_lib.CheckpointError, match=r"no checkpoint of step 1 .*no network"
    ) as caught:
        run.save(1)
    assert strategy.is_unreachable(caught.value)
    assert strategy.lost_worker(caught.value) is None
    assert not strategy.is_unreachable(checkpoints_lib.CheckpointError("the disk is full"))


def unlisted(names):
    """`storage.names`, which cannot list the directory of all checkpoints."""

    def found(directory):
        if directory.endswith("/checkpoints"):
            raise tf.errors.UnavailableError(None, None, "no network")
        return names(directory)

    return found


def test_keep_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match=r"`keep` must be at least 1. Received: keep=0"):
        Run(tmp_path, keep=0)
