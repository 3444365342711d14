"""Cells: a step and a chip, compiled once. The compiler always runs in a process of its own."""

import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import sys

from benchmarks.compiling import refusals
from benchmarks.compiling.chips import CHIPS
from convnlp.training.optimizers import OPTIMIZERS
from convnlp.training.storage import write_json

# Signals of a crashed compiler; any other signal was sent from outside.
_CRASHES = (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV)


class FailedError(Exception):
    """A process ended without a result; the message says how."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One step and one chip.

    Args:
        chip: str, a key of `CHIPS`.
        size: str, a key of `convnlp.models.SIZES`.
        mixer: str, a key of `convnlp.layers.MIXERS`.
        batch_size: int, rows per chip.
        input_length: int.
        optimizer: str, one of `convnlp.training.optimizers.OPTIMIZERS`.
    """

    chip: str
    size: str
    mixer: str
    batch_size: int
    input_length: int
    optimizer: str = OPTIMIZERS[0]

    @property
    def step_name(self):
        """The name of the step's files in a workdir, which are the same for all chips."""
        of_optimizer = "" if self.optimizer == OPTIMIZERS[0] else f"-{self.optimizer}"
        return f"{self.size}-{self.mixer}-{self.batch_size}x{self.input_length}{of_optimizer}"

    @property
    def name(self):
        """The name of the cell's files.

        Example:
        >>> Cell("v5e", "mini", "fourier", 8, 512).name
        'v5e-mini-fourier-8x512'
        >>> Cell("v5e", "mini", "fourier", 8, 512, "adamw").name
        'v5e-mini-fourier-8x512-adamw'
        """
        return f"{self.chip}-{self.step_name}"

    def result(self, workdir):
        """Returns what is known of the cell, a dict, or None if it has not been compiled."""
        return _read(pathlib.Path(workdir, f"{self.name}.json"))


def compute(cell, workdir, module="benchmarks.compiling"):
    """Lowers and compiles a step, unless that has been done.

    Args:
        cell: `Cell`.
        workdir: pathlib.Path, a directory. Two processes may share it.
        module: str, the package with the programs `lower` and `worker`.

    Returns:
        dict: the facts of the step, and the figures of `compiler.compiled` or a `refusal`.

    Raises:
        FailedError: if a process ended without either, because of a defect of ours or a signal sent to it.
            Nothing is kept, and the next call tries again.
    """
    with _locked(workdir / f"{cell.name}.lock"):
        found = cell.result(workdir)
        if found is None:
            facts = _lowered(cell, workdir, module)
            found = {"cell": dataclasses.asdict(cell), **facts}
            if "refusal" not in facts:
                program, path = workdir / f"{cell.step_name}.mlir", workdir / f"{cell.name}.answer"
                arguments = [f"{module}.worker", cell.chip, program, path, workdir / f"{cell.name}.hlo"]
                found |= _asked(arguments, path, workdir / f"{cell.name}.log", environment(cell.chip))
            write_json(workdir / f"{cell.name}.json", found)
    return found


def _lowered(cell, workdir, module):
    """Lowers the cell's step to a program in the workdir, unless that has been done; returns its facts."""
    with _locked(workdir / f"{cell.step_name}.lock"):
        facts = _read(workdir / f"{cell.step_name}.json")
        if facts is None:
            program, path = (workdir / f"{cell.step_name}.{kind}" for kind in ("mlir", "facts"))
            step = (cell.size, cell.mixer, cell.batch_size, cell.input_length, cell.optimizer)
            log = workdir / f"{cell.step_name}.log"
            facts = _asked([f"{module}.lower", *step, program, path], path, log, environment(cell.chip))
            write_json(workdir / f"{cell.step_name}.json", facts)
    return facts


def environment(chip):
    """Returns the environment variables by which libtpu compiles for a chip that is not there."""
    return {
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # no chip to share, so several may compile at once
        "CUDA_VISIBLE_DEVICES": "-1",
        "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TPU_ACCELERATOR_TYPE": CHIPS[chip].accelerator_type,
        "TPU_SKIP_MDS_QUERY": "1",
    }


def _asked(arguments, path, log_path, variables):
    """Runs a program that writes JSON to `path`, and returns that."""
    path.unlink(missing_ok=True)
    with open(log_path, "wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | variables,
        )
        try:
            code = child.wait()
        finally:
            if child.poll() is None:  # this process was stopped
                child.kill()
                child.wait()
    if -code in _CRASHES:
        words = log_path.read_text(encoding="utf-8", errors="replace")
        return {"refusal": refusals.of_crash(signal.Signals(-code).name, words)}
    found = _read(path)
    if code or found is None:
        raise FailedError(f"{arguments[0]} ended with exit code {code}, see {log_path}")
    path.unlink()
    return found


def _read(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


@contextlib.contextmanager
def _locked(path):
    with open(path, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed, at the latest when the process ends
        yield
