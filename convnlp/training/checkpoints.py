"""Atomic checkpoints: each exists completely or not at all.

    WORKDIR/checkpoints/00000400/          a checkpoint: model.*, iterator-<shard>.*, manifest.json
    WORKDIR/checkpoints/damaged-00000500/  one that no longer agreed with its manifest when it was read

The manifest holds the size and SHA-256 sum of every other file and a checksum of itself; it is written last.
On a disk, the checkpoint is written under a temporary name, and then the directory is renamed. Behind a URL,
where directories cannot be renamed atomically, a directory without a manifest is not a checkpoint. So a
process killed at any moment leaves only complete checkpoints and a directory that the next start removes.
Nothing is synced to the disk: after a power failure, the checksums reveal damage. Other entries of the
directory are never touched.
"""

import errno
import hashlib
import json
import re

import tensorflow as tf
from absl import logging

from convnlp.training import finite, shards, storage
from convnlp.training import strategy as strategy_lib

_MANIFEST = "manifest.json"
_KEYS = {"step", "num_shards", "facts", "files"}
_OLDER_NAMES = {"num_workers": "num_shards"}  # from when each worker had exactly one shard
_PARTS = ("model.", "iterator-")  # prefixes of the other files' names
_STEP = re.compile(r"\d{8,}")
_LEFTOVER = re.compile(r"\.(removed-)?\d{8,}")
_OURS = re.compile(rf"{_STEP.pattern}|{_LEFTOVER.pattern}|damaged-\d{{8,}}(-\d+)?")


class CheckpointError(OSError):
    """A checkpoint could not be written, or none of the existing ones can be read."""


def steps(workdir):
    """Returns the steps of all checkpoints of a run, a list of int, ascending; includes damaged ones."""
    directory = storage.join(workdir, "checkpoints")
    found = {int(name) for name in storage.names(directory) if _STEP.fullmatch(name)}
    return [step for step in sorted(found) if _is_written(directory, step)]


def num_shards(workdir):
    """Returns the number of shards of a run's data, from its newest intact manifest; None without one."""
    for step in reversed(steps(workdir)):
        try:
            return _manifest(storage.join(workdir, "checkpoints"), step)["num_shards"]
        except (*storage.ERRORS, ValueError) as error:
            if not _is_damage(error):  # a damaged one is reported by `restore`
                raise
    return None


def newest(workdir):
    """Reads the checkpoints of a run from the newest one on, until one is intact.

    Returns:
        (its step, None without one; dict, step -> what is wrong with it, of those after it).

    Raises:
        OSError or tf.errors.OpError: if a checkpoint that may be intact cannot be read at the moment.
    """
    damaged = {}
    for step in reversed(steps(workdir)):
        damage = _damage(storage.join(workdir, "checkpoints"), step)
        if damage is None:
            return step, damaged
        damaged[step] = damage
    return None, damaged


class Checkpoints:
    """Saves and restores the model, the optimizer and the iterators of the data's shards.

    Keeps the last `keep` checkpoints, and the best one according to `progress["best_step"]`.

    Args:
        workdir: directory that all workers share, a local path or a URL.
        model: has `variables`.
        optimizer: a built Keras optimizer.
        strategy: the `tf.distribute.Strategy` of the variables.
        keep: int >= 1. Defaults to 3.

    Raises:
        ValueError: if `keep` is less than 1.
    """

    def __init__(self, workdir, model, optimizer, strategy, keep=3):
        if keep < 1:
            raise ValueError(f"`keep` must be at least 1. Received: keep={keep}")
        self._workdir = workdir
        self._directory = storage.join(workdir, "checkpoints")
        self._strategy = strategy
        self._worker, self._num_workers = strategy_lib.workers(strategy)
        self._keep = keep
        self._state = [*model.variables, *optimizer.variables]
        # Lists in creation order: layer names contain a counter per process, so names cannot be keys across
        # processes.
        self._variables = tf.train.Checkpoint(
            model=[v.value for v in model.variables], optimizer=[v.value for v in optimizer.variables]
        )
        if self._worker == 0:
            storage.gfile.makedirs(self._directory)
            self._tidy()
        strategy_lib.any_worker(strategy, False)

    def read_from(self, batches):
        """Saves and restores these `Batches` from now on: a run may read one data set after another."""
        self._num_shards = batches.count
        self._iterators = {
            shard: tf.train.Checkpoint(iterator=iterator) for shard, iterator in batches.iterators.items()
        }

    def _tidy(self):
        strangers = []
        for name in storage.names(self._directory):
            path = storage.join(self._directory, name)
            if not _OURS.fullmatch(name) or not storage.gfile.isdir(path):
                strangers.append(name)
            elif _LEFTOVER.fullmatch(name) or self._is_partial(name):
                self._delete(path)
        if strangers:
            logging.warning("Ignoring in %s, not checkpoints: %s", self._directory, ", ".join(strangers))

    def _is_partial(self, name):
        """Whether a directory behind a URL is a checkpoint that was never completed."""
        if not storage.is_remote(self._directory) or not _STEP.fullmatch(name):
            return False
        return name == f"{int(name):08d}" and not _is_written(self._directory, int(name))

    def steps(self):
        """Returns the steps of all checkpoints, ascending."""
        return steps(self._workdir)

    def save(self, step, progress):
        """Writes a checkpoint; every worker calls it.

        Args:
            step: int.
            progress: dict of JSON values that `restore` returns.

        Raises:
            NonFiniteError: if a weight or a slot of the optimizer is not finite; nothing is written.
            CheckpointError: if the checkpoint cannot be written. Earlier ones remain unchanged.
        """
        reason = finite.complaint(self._state)
        if strategy_lib.any_worker(self._strategy, reason is not None):
            raise finite.NonFiniteError(
                f"no checkpoint of step {step}: {reason or 'another worker has a value that is not finite'}; "
                f"{self._last()}"
            )
        target = self._path(step)
        partial = target if storage.is_remote(target) else storage.join(self._directory, f".{step:08d}")
        try:
            if self._worker == 0:
                self._delete(partial)
                storage.gfile.makedirs(partial)
            strategy_lib.any_worker(self._strategy, False)
            for shard, iterator in self._iterators.items():
                if shards.saved_by(shard, self._num_workers, self._num_shards) == self._worker:
                    iterator.write(storage.join(partial, f"iterator-{shard}"))
            if self._worker == 0:
                self._variables.write(storage.join(partial, "model"))
            strategy_lib.any_worker(self._strategy, False)
            if self._worker == 0:
                self._commit(partial, target, step, progress)
        except storage.ERRORS as error:
            self._delete(partial)
            if strategy_lib.lost_worker(error) is not None:  # not the files' fault
                raise
            reason = storage.reason(error)
            raise CheckpointError(
                f"no checkpoint of step {step} in {self._directory}: {reason}; {self._last()}"
            ) from error
        if self._worker == 0:
            self._prune(progress.get("best_step"))
        strategy_lib.any_worker(self._strategy, False)

    def _commit(self, partial, target, step, progress):
        files = {
            name: storage.fingerprint(storage.join(partial, name))
            for name in storage.names(partial)
            if name.startswith(_PARTS)
        }
        manifest = {"step": step, "num_shards": self._num_shards, "facts": progress, "files": files}
        storage.write_json(storage.join(partial, _MANIFEST), {**manifest, "sha256": _sum_of(manifest)})
        if partial != target:
            self._remove(step)
            storage.rename(partial, target)

    def _last(self):
        try:
            before = self.steps()
        except storage.ERRORS:  # what kept us from writing may keep us from reading too
            return "what is there cannot be read now"
        return f"the one of step {before[-1]} is intact" if before else "there is none before it"

    def restore(self, batches_at):
        """Restores the newest readable checkpoint; logs damaged ones and renames them.

        Args:
            batches_at: function of (step, progress) -> fresh `Batches` of the data that the run reads at that
                step; they are passed to `read_from`.

        Returns:
            (step, progress), or (0, {}) if there is no checkpoint. If the checkpoint of the best step is
            missing or damaged, `best_step` and `best_value` of the progress are None.

        Raises:
            CheckpointError: if there are checkpoints but all are damaged, or if the data have a different
                number of shards.
            OSError or tf.errors.OpError: if a checkpoint that may be intact cannot be read at the moment.
        """
        step, damaged = newest(self._workdir)
        if step is None:
            if damaged:
                self._report(damaged)
                raise CheckpointError(
                    f"every checkpoint in {self._directory} is damaged ({next(iter(damaged.values()))}); "
                    "move the directory away to start again"
                )
            self.read_from(batches_at(0, {}))
            return 0, {}
        manifest = _manifest(self._directory, step)
        progress = manifest["facts"]
        best_step = progress.get("best_step")
        best_damage = None if best_step in (None, step) else _damage(self._directory, best_step)
        if best_damage is not None:
            progress.update(best_step=None, best_value=None)
            damaged[best_step] = best_damage
        strategy_lib.any_worker(self._strategy, False)  # all have looked before the first one renames
        if damaged:
            self._report(damaged)
            if self._worker == 0:
                logging.warning("Using the checkpoint of step %d instead", step)
                for candidate in damaged:
                    self._set_aside(candidate)
        self.read_from(batches_at(step, progress))
        if manifest["num_shards"] != self._num_shards:
            raise CheckpointError(
                f"the data must have {manifest['num_shards']} shards, as in {self._path(step)}. "
                f"Received: {self._num_shards} shards"
            )
        self._variables.read(storage.join(self._path(step), "model")).assert_consumed()
        for shard, iterator in self._iterators.items():
            iterator.read(storage.join(self._path(step), f"iterator-{shard}")).assert_consumed()
        return step, progress

    def restore_variables(self, step):
        """Restores only the weights and optimizer slots of one step.

        Returns:
            bool, whether the checkpoint exists and is intact; if not, this is logged and nothing changes.

        Raises:
            OSError or tf.errors.OpError: as for `restore`.
        """
        damage = _damage(self._directory, step)
        if strategy_lib.any_worker(self._strategy, damage is not None):
            self._report({step: damage})
            return False
        self._variables.read(storage.join(self._path(step), "model")).assert_consumed()
        return True

    def _path(self, step):
        return storage.join(self._directory, f"{step:08d}")

    def _report(self, damaged):
        if self._worker == 0:
            for step, damage in damaged.items():
                logging.warning("Checkpoint %s is damaged (%s)", self._path(step), damage)

    def _set_aside(self, step):
        if not storage.gfile.exists(self._path(step)):
            return
        taken, name, count = storage.names(self._directory), f"damaged-{step:08d}", 1
        while name in taken:
            count += 1
            name = f"damaged-{step:08d}-{count}"
        storage.move(self._path(step), storage.join(self._directory, name))

    def _prune(self, best_step):
        """Removes what need not be kept; a checkpoint too many is no reason to end the run."""
        try:
            for step in self.steps()[: -self._keep]:
                if step != best_step:
                    self._remove(step)
        except storage.ERRORS as error:
            logging.warning(
                "Could not remove old checkpoints from %s: %s", self._directory, storage.reason(error)
            )

    def _remove(self, step):
        """Removes a checkpoint; it is renamed, or loses its manifest, first: a partial one must not count."""
        path = self._path(step)
        if storage.is_remote(path):
            self._delete(path)
        elif storage.gfile.exists(path):
            removed = storage.join(self._directory, f".removed-{step:08d}")
            self._delete(removed)
            storage.rename(path, removed)
            self._delete(removed)

    def _delete(self, path):
        """Deletes one of our directories; files that cannot be deleted (still open on NFS) are left."""
        try:
            storage.remove(storage.join(path, _MANIFEST))
            if storage.gfile.exists(path):
                storage.remove_directory(path)
        except storage.ERRORS as error:
            logging.warning("Could not delete all of %s: %s", path, storage.reason(error))


def _damage(directory, step):
    """Returns what is wrong with a checkpoint, or None; raises an error if it cannot be read just now."""
    name = _MANIFEST
    try:
        for name, expected in _manifest(directory, step)["files"].items():
            if storage.fingerprint(storage.join(directory, f"{step:08d}", name)) != expected:
                return f"{name} does not agree with the manifest"
    except (*storage.ERRORS, ValueError) as error:
        if not _is_damage(error):
            raise
        is_missing = isinstance(error, FileNotFoundError | tf.errors.NotFoundError)
        return f"{name} is missing" if is_missing else " ".join(str(error).split())
    return None


def _is_damage(error):
    """Whether an error lies in a file, and not in the network, the rights or the process."""
    kinds = ValueError, FileNotFoundError, tf.errors.NotFoundError, tf.errors.DataLossError
    return isinstance(error, kinds) or getattr(error, "errno", None) == errno.EIO


def _manifest(directory, step):
    """Returns the manifest of a checkpoint, a dict; raises ValueError if it is damaged."""
    manifest = storage.read_json(storage.join(directory, f"{step:08d}", _MANIFEST))
    if not isinstance(manifest, dict):
        raise ValueError(f"{_MANIFEST} is not an object")
    expected = manifest.pop("sha256", None)
    agrees = expected in (None, _sum_of(manifest))
    manifest = {_OLDER_NAMES.get(name, name): value for name, value in manifest.items()}
    # Exactly these keys: version 0.1.0 wrote no checksum, and a damaged key must not pass as its absence.
    if set(manifest) != _KEYS or not agrees:
        raise ValueError(f"{_MANIFEST} does not agree with its own sum")
    if manifest["step"] != step:
        raise ValueError(f"{_MANIFEST} belongs to step {manifest['step']}")
    return manifest


def _is_written(directory, step):
    path = storage.join(directory, f"{step:08d}")
    if not storage.is_remote(path):
        return storage.gfile.isdir(path)
    # Not `isdir`, which takes any failure, such as that of the network, for "no".
    return storage.has(path, _MANIFEST)


def _sum_of(manifest):
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
