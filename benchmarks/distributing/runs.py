"""Timed runs of `convnlp launch`: how many workers, on which cores, and what a step of each took.

A run trains with one number of workers on one batch size after the other, as stages of the same run, so
that there is only one start. It is stopped when the last stage has made its steps.
"""

import dataclasses
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from benchmarks import processes, tiny_run
from convnlp.launching.worker import ending_with_us

CONFIG = "pretrain_encoder:dynamic_conv"  # as for the shipped preset
STEPS_PER_CALL = 4
_ROOT = pathlib.Path(__file__).resolve().parents[2]
_WARM_UP_CALLS = 1  # per stage, while its step is traced and compiled
_POLL_SECONDS = 0.02
_PATIENCE_SECONDS = 600.0


@dataclasses.dataclass(frozen=True)
class Layout:
    """Workers, what each has of the machine, and what they train on.

    Args:
        num_workers: int.
        threads: int, of each worker.
        cpus: tuple of tuples of ints, the logical processors of each worker.
        batch_sizes: tuple of ints, the rows of all workers together, one stage after the other.
    """

    num_workers: int
    threads: int
    cpus: tuple
    batch_sizes: tuple

    @property
    def num_cores(self):
        """int, the cores of all workers together."""
        return len({cpu for own in self.cpus for cpu in own})


def layouts(counts, cores, rows):
    """Returns the runs of one round.

    Up to the number of cores, each worker has its own core. More workers share all cores, with one thread
    each, so that each gets an equal part of their time; three workers on two cores, for example, cannot
    have equal sets of cores. Each number of workers trains with `rows` rows per worker (weak scaling) and
    with `rows` in total (strong). One worker alone trains, one after the other, with the rows that each
    worker has in these runs, which gives their steps without the exchange. In the last run, one worker has
    all cores.

    Args:
        counts: list of ints, the numbers of workers. 1 is among them, and each divides `rows`.
        cores: list of ints, see `processes.cores`.
        rows: int.
    """
    found = []
    for count in sorted(counts):
        own = tuple((cpu,) for cpu in cores[:count])
        cpus = own if count <= len(cores) else (tuple(cores),) * count
        sizes = (rows * count, rows) if count > 1 else tuple(rows // each for each in sorted(counts))
        found.append(Layout(count, 1, cpus, sizes))
    if len(cores) > 1:
        most, least = rows * len(cores), max(1, rows // 4) * len(cores)
        found.append(Layout(1, len(cores), (tuple(cores),), (most, least)))
    return found


def measure(layout, folder, calls, fields=None):
    """Starts a run and times its steps.

    Args:
        layout: `Layout`.
        folder: pathlib.Path, an empty directory.
        calls: int, timed calls of `STEPS_PER_CALL` steps, per stage.
        fields: dict of further fields of the config, see `tiny_run.command`.

    Returns:
        list of dicts, one per stage: the facts of `layout`, "rows" of each worker, and per step "seconds",
        a list with one entry per call, "cpu_seconds" of all workers, and "tokens"; "others_share", the
        share of the machine that other processes used meanwhile.

    Raises:
        ValueError: if the run ends or makes no progress; the message has its last output.
        RuntimeError: if a worker was not on its cores.
    """
    stage_steps = STEPS_PER_CALL * (_WARM_UP_CALLS + calls)
    workdir, log_path = folder / "run", folder / "log"
    values = run_fields(layout.batch_sizes, stage_steps) | (fields or {})
    command = [
        *(sys.executable, "-m", "convnlp", "launch", f"--num_workers={layout.num_workers}"),
        *(f"--threads_per_worker={layout.threads}", "--grace_seconds=0", "--"),
        *tiny_run.command(workdir, values, CONFIG),
    ]
    with open(log_path, "wb") as log:
        launcher = subprocess.Popen(ending_with_us(command), cwd=_ROOT, stdout=log, stderr=log)
    try:
        marks = _watched(launcher, layout, workdir, stage_steps * len(layout.batch_sizes))
    except _EndedError as error:
        words = log_path.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise ValueError(f"the run with {layout.num_workers} workers {error}: {words}") from None
    finally:
        launcher.terminate()
        launcher.wait()
    return [
        {
            "num_workers": layout.num_workers,
            "threads": layout.threads,
            "num_cores": layout.num_cores,
            "rows": batch_size // layout.num_workers,
            **of_stage(marks, stage * stage_steps + STEPS_PER_CALL * _WARM_UP_CALLS, calls),
        }
        for stage, batch_size in enumerate(layout.batch_sizes)
    ]


class _EndedError(Exception):
    """A run has ended too early, or makes no progress."""


def run_fields(batch_sizes, stage_steps):
    """Returns the config fields of a run with these stages."""
    num_steps = stage_steps * len(batch_sizes)
    return {
        **tiny_run.example_fields(),
        "data.split": "train[25%:]",  # holds out about 270 rows, of which a batch takes 96
        "data.validation_split": "train[:25%]",
        "data.shuffle_buffer": 64,
        "optimizer.warmup_steps": 1,  # fewer than there are steps
        "train.batch_size": batch_sizes[0],
        "train.stage_batch_sizes": f"({','.join(map(str, batch_sizes))},)",
        "train.stage_steps": f"({','.join([str(stage_steps)] * len(batch_sizes))},)",
        "train.num_steps": num_steps,
        "train.steps_per_call": STEPS_PER_CALL,
        "train.eval_every": num_steps,
        "train.checkpoint_every": num_steps,
        "train.eval_batches": 1,
    }


@dataclasses.dataclass(frozen=True)
class Mark:
    """What was read at the end of a call.

    Args:
        time: float, of the clock.
        tokens_per_second: float, of the call, according to the trainer.
        tokens: int, of the run so far.
        cpu_seconds: float, of all workers.
        others_seconds: float, CPU seconds of all other processes.
    """

    time: float
    tokens_per_second: float
    tokens: int
    cpu_seconds: float
    others_seconds: float


def of_stage(marks, first_step, calls):
    """Returns what the calls of a stage took.

    Args:
        marks: dict, step -> `Mark`.
        first_step: int, where the first timed call begins; it has a mark.
        calls: int.
    """
    steps = [first_step + STEPS_PER_CALL * call for call in range(calls + 1)]
    found = [marks[step] for step in steps]
    tokens = [after.tokens - before.tokens for before, after in itertools.pairwise(found)]
    seconds = [count / mark.tokens_per_second for count, mark in zip(tokens, found[1:], strict=True)]
    first, last, num_steps = found[0], found[-1], steps[-1] - first_step
    return {
        "seconds": [each / STEPS_PER_CALL for each in seconds],
        "cpu_seconds": (last.cpu_seconds - first.cpu_seconds) / num_steps,
        "tokens": sum(tokens) / num_steps,
        "others_share": (last.others_seconds - first.others_seconds)
        / ((last.time - first.time) * os.cpu_count()),
    }


def _watched(launcher, layout, workdir, num_steps):
    """Pins the workers and follows them to step `num_steps`; returns a dict, step -> `Mark`."""
    pids, marks, end = {}, {}, time.monotonic() + _PATIENCE_SECONDS
    while num_steps not in marks:
        if launcher.poll() is not None:
            raise _EndedError(f"has ended with exit code {launcher.returncode}")
        if time.monotonic() > end:
            raise _EndedError(f"has come no further than step {max(marks, default=0)}")
        if len(pids) < layout.num_workers:
            pids = processes.workers(launcher.pid)
            for index, pid in pids.items():
                processes.pin(pid, layout.cpus[index])
        before = len(marks)
        _take_marks(workdir, pids, marks)
        if len(marks) > before:
            end = time.monotonic() + _PATIENCE_SECONDS
        time.sleep(_POLL_SECONDS)
    for index, pid in pids.items():
        processes.require_pinned(pid, layout.cpus[index])
    return marks


def _take_marks(workdir, pids, marks):
    """Adds a `Mark` for each call whose times have been written since the last time."""
    rates = {row["step"]: row["tokens_per_second"] for row in _rows(workdir / "times.jsonl")}
    if new := rates.keys() - marks.keys():
        tokens = {row["step"]: row["tokens"] for row in _rows(workdir / "metrics.jsonl") if "tokens" in row}
        now, all_seconds = time.monotonic(), processes.machine_cpu_seconds()
        own = sum(map(processes.cpu_seconds, pids.values()))
        others = all_seconds - own - time.process_time()
        marks |= {step: Mark(now, rates[step], tokens[step], own, others) for step in new}


def _rows(path):
    """Returns the complete lines of a JSON-lines file that may still grow."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def together(samples):
    """Merges the samples of all rounds into one dict per number of workers, threads and rows, in order.

    Args:
        samples: list of dicts, see `measure`.
    """
    groups = {}
    for sample in samples:
        groups.setdefault((sample["num_workers"], sample["threads"], sample["rows"]), []).append(sample)
    return [
        {
            **group[0],
            "seconds": [value for each in group for value in each["seconds"]],
            **{
                key: statistics.median(each[key] for each in group)
                for key in ("cpu_seconds", "tokens", "others_share")
            },
            "rounds": len(group),
        }
        for group in groups.values()
    ]
