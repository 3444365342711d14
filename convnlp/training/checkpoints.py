"""Checkpoints that are there completely or not at all.

    WORKDIR/config.json                    the resolved config of the run
    WORKDIR/checkpoints/00000400/          one checkpoint: model.*, iterator-<worker>.*, manifest.json
    WORKDIR/checkpoints/damaged-00000500/  one that no longer agreed with its manifest when it was to be read

A checkpoint is written under another name; its manifest, which holds the size and SHA-256 of every other
file, is written last; then the directory is renamed. So a process killed at any moment leaves only complete
checkpoints and a directory that the next start removes. Nothing is forced to the disk: after a power
failure the sums tell.
"""

import hashlib
import json
import pathlib
import shutil

import tensorflow as tf
from absl import logging

from convnlp.training import strategy as strategy_lib


class CheckpointError(OSError):
    """A checkpoint could not be written, or none of those there can be read."""


def check_config(workdir, config, write=True):
    """Writes `config` to WORKDIR/config.json, or compares it with the one that is there.

    Args:
        workdir: directory, created if missing.
        config: nested dict of JSON values.
        write: bool. False only compares, for all workers but the first. Defaults to True.

    Raises:
        ValueError: if the directory holds checkpoints of another config; names each field that differs.
    """
    workdir = pathlib.Path(workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    path = workdir / "config.json"
    config = json.loads(json.dumps(config))
    if not path.exists() or not any((workdir / "checkpoints").glob("[0-9]*")):  # nothing that could be spoilt
        if write:
            write_json(path, config)
        return
    before, now = _flatten(json.loads(path.read_text())), _flatten(config)
    changed = [
        f"{name}: {before.get(name, 'absent')!r} -> {now.get(name, 'absent')!r}"
        for name in sorted({*before, *now})
        if before.get(name, "absent") != now.get(name, "absent")
    ]
    if changed:
        raise ValueError(f"`workdir` {workdir} holds a run of another config ({'; '.join(changed)})")


def write_json(path, value):
    """Writes JSON so that a reader sees the old file or the new one, never a part."""
    path = pathlib.Path(path)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")
    partial.replace(path)


class Checkpoints:
    """Saves and restores the model, the optimizer and each worker's input iterator.

    Of a finished checkpoint the last `keep` stay, and the best one by `facts["best_step"]`.

    Args:
        workdir: directory that all workers share.
        model: has `variables`.
        optimizer: a built Keras optimizer.
        iterator: iterator of a `tf.data.Dataset`, this worker's own.
        strategy: the `tf.distribute.Strategy` of the variables.
        keep: int >= 1. Defaults to 3.
    """

    def __init__(self, workdir, model, optimizer, iterator, strategy, keep=3):
        if keep < 1:
            raise ValueError(f"`keep` must be at least 1. Received: keep={keep}")
        self._directory = pathlib.Path(workdir) / "checkpoints"
        self._strategy = strategy
        self._worker, self._num_workers = strategy_lib.workers(strategy)
        self._keep = keep
        # Lists in creation order: layer names count up within a process, so a name is no key across
        # processes.
        self._variables = tf.train.Checkpoint(
            model=[v.value for v in model.variables], optimizer=[v.value for v in optimizer.variables]
        )
        self._iterator = tf.train.Checkpoint(iterator=iterator)
        if self._worker == 0:
            self._directory.mkdir(parents=True, exist_ok=True)
            for leftover in self._directory.glob(".*"):
                shutil.rmtree(leftover)
        strategy_lib.any_worker(strategy, False)

    def steps(self):
        """Returns the steps of all checkpoints, ascending."""
        return sorted(int(path.name) for path in self._directory.glob("[0-9]*"))

    def save(self, step, facts):
        """Writes a checkpoint; every worker calls it.

        Args:
            step: int.
            facts: dict of JSON values that `restore` gives back.

        Raises:
            CheckpointError: if it cannot be written. Those written before stay as they are.
        """
        partial = self._directory / f".{step:08d}"
        try:
            partial.mkdir(exist_ok=True)
            self._iterator.write(str(partial / f"iterator-{self._worker}"))
            if self._worker == 0:
                self._variables.write(str(partial / "model"))
            strategy_lib.any_worker(self._strategy, False)
            if self._worker == 0:
                files = {path.name: _fingerprint(path) for path in sorted(partial.iterdir())}
                manifest = {"step": step, "num_workers": self._num_workers, "facts": facts, "files": files}
                write_json(partial / "manifest.json", manifest)
                self._remove(step)
                partial.rename(self._path(step))
                self._prune(facts.get("best_step"))
        except (OSError, tf.errors.OpError) as error:
            shutil.rmtree(partial, ignore_errors=True)
            before = (
                f"the one of step {self.steps()[-1]} is intact" if self.steps() else "there is none before it"
            )
            reason = str(error).splitlines()[0]
            raise CheckpointError(
                f"no checkpoint of step {step} in {self._directory}: {reason}; {before}"
            ) from error
        strategy_lib.any_worker(self._strategy, False)

    def restore(self):
        """Restores the newest readable checkpoint; reports and sets aside those that are damaged.

        Returns:
            (step, facts), or (0, {}) if there is no checkpoint.

        Raises:
            CheckpointError: if there are checkpoints but none can be read, or they are of another number of
                workers.
        """
        step, damaged = None, []
        for candidate in reversed(self.steps()):
            damage = self._damage(candidate)
            if damage is None:
                step = candidate
                break
            damaged.append((candidate, damage))
        strategy_lib.any_worker(self._strategy, False)  # all have looked before the first one renames
        for candidate, damage in damaged:
            if self._worker == 0:
                logging.warning("Checkpoint %s is damaged (%s)", self._path(candidate), damage)
        if step is None:
            if damaged:
                raise CheckpointError(
                    f"every checkpoint in {self._directory} is damaged ({damaged[0][1]}); "
                    "remove the directory to start again"
                )
            return 0, {}
        if damaged and self._worker == 0:
            logging.warning("Using the checkpoint of step %d instead", step)
            for candidate, _ in damaged:
                aside = self._directory / f"damaged-{candidate:08d}"
                shutil.rmtree(aside, ignore_errors=True)
                self._path(candidate).rename(aside)
        manifest = self._manifest(step)
        if manifest["num_workers"] != self._num_workers:
            raise CheckpointError(
                f"{self._path(step)} was written by {manifest['num_workers']} workers. "
                f"Received: {self._num_workers} workers"
            )
        self.restore_variables(step)
        self._iterator.read(str(self._path(step) / f"iterator-{self._worker}")).assert_consumed()
        return step, manifest["facts"]

    def restore_variables(self, step):
        """Restores only the weights and optimizer slots of one step."""
        self._variables.read(str(self._path(step) / "model")).assert_consumed()

    def _path(self, step):
        return self._directory / f"{step:08d}"

    def _manifest(self, step):
        return json.loads((self._path(step) / "manifest.json").read_text())

    def _damage(self, step):
        """Returns what is wrong with a checkpoint, or None."""
        try:
            files = self._manifest(step)["files"]
            for name, expected in files.items():
                if _fingerprint(self._path(step) / name) != expected:
                    return f"{name} does not agree with the manifest"
        except (OSError, ValueError, KeyError) as error:
            return str(error)
        return None

    def _prune(self, best_step):
        for step in self.steps()[: -self._keep]:
            if step != best_step:
                self._remove(step)

    def _remove(self, step):
        """Renames first: a checkpoint removed in part must not count as one."""
        if self._path(step).exists():
            shutil.rmtree(self._path(step).rename(self._directory / f".removed-{step:08d}"))


def _fingerprint(path):
    with open(path, "rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _flatten(config, prefix=""):
    flat = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat.update(_flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat
