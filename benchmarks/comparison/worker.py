"""Computes the cells of one mixer, one after the other, in one process.

    python -m benchmarks.comparison.worker PLAN DIR MIXER KIND[,KIND...] [MODULE...]

`benchmarks.compare` and `benchmarks.paper` start it. PLAN is the file written by `Plan.write`, MIXER is one
of its rows, KINDs are some of `cells.KINDS`, and MODULEs register mixers.
"""

import contextlib
import fcntl
import gc
import json
import shutil
import signal
import sys
import time

import keras

from benchmarks.comparison import cells, measuring, training
from benchmarks.comparison.plan import Plan
from convnlp import programs
from convnlp.training import storage
from convnlp.training.stopping import StoppedError

COMPUTE = {
    "measure": measuring.measured,
    "pretrain_trial": training.pretrain_trial,
    "pretrain": training.pretrained,
    "finetune_trial": training.finetune_trial,
    "finetune": training.finetuned,
}
_CLOCKS = {"cpu_seconds": time.process_time, "seconds": time.monotonic}


def compute(plan, workdir, mixer, kinds=cells.KINDS):
    """Computes the missing cells of a mixer in this process; waits for those that another computes."""
    for cell in cells.missing(plan.cells(mixer), workdir):
        if cell.kind not in kinds:
            continue
        directory = cell.directory(workdir)
        directory.mkdir(parents=True, exist_ok=True)
        with open(directory / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed, at the latest when the process ends
            if cell in cells.missing(plan.cells(mixer), workdir):
                _compute_cell(plan, cell, workdir)


def _compute_cell(plan, cell, workdir):
    directory = cell.directory(workdir)
    storage.write_json(directory / "settings.json", cell.settings)
    print(f"{cell.name}", flush=True)
    with counted(directory / "spent.json"):
        result = COMPUTE[cell.kind](plan, cell, workdir)
    spent = json.loads((directory / "spent.json").read_text(encoding="utf-8"))
    storage.write_json(directory / "result.json", {**result, **spent})
    kept = cell.kind == "pretrain" or (cell.kind == "finetune" and plan.data.task_kind.keeps_presets)
    for rest in ("checkpoints", "tensorboard", *([] if kept else ["preset"])):
        shutil.rmtree(directory / rest, ignore_errors=True)
    keras.backend.clear_session()
    gc.collect()


@contextlib.contextmanager
def counted(path):
    """Adds the time spent in the block to a file {"cpu_seconds", "seconds"}, even after an exception.

    So a cell that was stopped and continued has the sum. A block ended by `kill -9` is not counted.

    Args:
        path: pathlib.Path.
    """
    before = dict.fromkeys(_CLOCKS, 0.0)
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
    start = {name: clock() for name, clock in _CLOCKS.items()}
    try:
        yield
    finally:
        spent = {name: before[name] + clock() - start[name] for name, clock in _CLOCKS.items()}
        storage.write_json(path, spent)


def main(plan_path, workdir, mixer, kinds, *modules):
    """Imports the modules and computes what is missing.

    SIGTERM ends the process; while it trains, a checkpoint is saved first.
    """
    signal.signal(signal.SIGTERM, lambda signum, _: sys.exit(128 + signum))  # outside the training loop
    programs.import_modules(modules)
    try:
        compute(Plan.read(plan_path), workdir, mixer, kinds.split(","))
    except StoppedError as stop:
        sys.exit(stop.exit_code)


if __name__ == "__main__":
    main(*sys.argv[1:])
