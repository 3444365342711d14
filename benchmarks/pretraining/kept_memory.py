"""What it gains a run of pre-training that programs keep the memory that they free (`convnlp.allocator`).

    python -m benchmarks.pretraining.kept_memory --json=FILE

`convnlp pretrain` trains the shipped preset's encoder, from random weights, on the example's texts; then an
encoder of the same size with attention. Runs that keep memory and runs with the defaults of glibc take
turns, each in a process of its own, on all cores. The seconds are those of the steps after the first call
of the graph. Page faults and the system's CPU time are those of the whole process, divided by its steps.
"""

import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from benchmarks import program, tiny_run
from benchmarks.rows import Row

# The measured figures: name -> (unit, scale).
_FIGURES = {
    "step": ("s", 1.0),
    "system's CPU time of a step": ("s", 1.0),
    "page faults of a step": ("thousand", 1e-3),
    "peak memory": ("MB", 1e-6),
}


@dataclasses.dataclass
class Settings:
    """What is measured.

    Args:
        mixers: tuple of str.
        num_steps: int, the length of a run: several calls of the graph, of 10 steps unless `changes` says
            otherwise.
        repeats: int, runs of each kind.
        changes: dict, changed fields of the config.
    """

    mixers: tuple = ("dynamic_conv", "self_attention")
    num_steps: int = 60
    repeats: int = 3
    changes: dict = dataclasses.field(default_factory=dict)


def rows(settings):
    """Yields a row for each mixer and figure: what keeps memory, and the defaults as its peer."""
    for mixer in settings.mixers:
        found = {True: [], False: []}
        for _ in range(settings.repeats):
            for keeps, runs in found.items():
                with tempfile.TemporaryDirectory() as folder:
                    runs.append(measured(pathlib.Path(folder), mixer, keeps, settings))
        setting = {"mixer": mixer, "num_steps": settings.num_steps, "repeats": settings.repeats}
        for name, (unit, scale) in _FIGURES.items():
            samples = {keeps: [scale * run[name] for run in runs] for keeps, runs in found.items()}
            ours, peer = (statistics.median(samples[keeps]) for keeps in (True, False))
            detail = {"ours_samples": samples[True], "peer_samples": samples[False]}
            yield Row(f"{name} vs glibc's defaults", setting, ours, peer, unit, "lower", None, detail)


def measured(folder, mixer, keeps, settings):
    """Runs `convnlp pretrain` once; returns a dict with the figures.

    Args:
        folder: pathlib.Path of an empty directory.
        mixer: str.
        keeps: bool, whether the program keeps the memory that it frees.
        settings: `Settings`.

    Raises:
        RuntimeError: if the run fails; with the end of what it printed.
    """
    number = settings.num_steps
    values = {
        **tiny_run.example_fields(),
        "data.split": "train[20%:]",
        "data.validation_split": "train[:20%]",  # a batch at least
        "train.num_steps": number,
        "train.steps_per_call": 10,
        "train.eval_every": number,
        "train.checkpoint_every": number,
        "train.eval_batches": 1,
        "optimizer.schedule": "inverse_sqrt",
        "optimizer.warmup_steps": number,
        **settings.changes,
    }
    command = tiny_run.command(folder / "run", values, f"pretrain_mini_en:{mixer}")
    with open(folder / "log.txt", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "convnlp", *command],
            env=environment(keeps),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        _, status, usage = os.wait4(process.pid, 0)  # the usage of this process alone
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        text = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"pretrain has ended with {process.returncode}: {text[-2000:]}")
    lines = (folder / "run" / "times.jsonl").read_text(encoding="utf-8").splitlines()
    return {
        "step": seconds_per_step([json.loads(line) for line in lines]),
        "system's CPU time of a step": usage.ru_stime / number,
        "page faults of a step": usage.ru_minflt / number,
        "peak memory": 1024.0 * usage.ru_maxrss,
    }


def environment(keeps):
    """Returns the environment of a run. `convnlp.allocator` leaves malloc alone if GLIBC_TUNABLES is set."""
    found = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    found.pop("GLIBC_TUNABLES", None)
    return found if keeps else {**found, "GLIBC_TUNABLES": ""}


def seconds_per_step(times):
    """Returns the seconds of a step, from the lines of times.jsonl; the first is left out, with the tracing.

    Example:
    >>> seconds_per_step([{"step": 10, "unix_seconds": 5.0}, {"step": 30, "unix_seconds": 15.0}])
    0.5
    """
    first, last = times[0], times[-1]
    return (last["unix_seconds"] - first["unix_seconds"]) / (last["step"] - first["step"])


if __name__ == "__main__":
    program.run(rows, full=Settings(), short=Settings(mixers=("dynamic_conv",), num_steps=20, repeats=1))
