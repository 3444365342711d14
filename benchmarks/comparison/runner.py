"""Runs a process of its own that computes the missing cells."""

import pathlib
import signal
import subprocess
import sys

from benchmarks.comparison import cells
from convnlp import programs


def end_by_sigterm():
    """Makes SIGTERM raise an exception in this process, so that `compute` ends its child as well."""
    signal.signal(signal.SIGTERM, lambda signum, _: sys.exit(128 + signum))


def compute(plan, mixer, workdir, plan_name="plan", kinds=cells.KINDS):
    """Computes the missing cells of a row, if any; the process logs to WORKDIR/log-ROW.txt.

    Args:
        plan: `benchmarks.comparison.plan.Plan`.
        mixer: str, one of its rows.
        workdir: pathlib.Path.
        plan_name: str, the name of the file in `workdir` through which the plan is passed on.
        kinds: sequence of str, the `cells.KINDS` to compute.

    Returns:
        bool, whether all of them are finished.
    """
    wanted = [cell for cell in plan.cells(mixer) if cell.kind in kinds]
    num_missing = len(cells.missing(wanted, workdir))
    print(f"{mixer}: {len(wanted) - num_missing} of {len(wanted)} cells are done", flush=True)
    if not num_missing:
        return True
    plan_path = workdir / f"{plan_name}.json"
    plan.write(plan_path)
    arguments = [plan_path, workdir, mixer, ",".join(kinds)]
    return run("benchmarks.comparison.worker", arguments, mixer, workdir)


def run(worker, arguments, name, workdir):
    """Runs a worker to its end, in a process that logs to WORKDIR/log-NAME.txt.

    Args:
        worker: str, its module.
        arguments: list, the arguments of the module; the modules that register mixers are appended.
        name: str, what it works on.
        workdir: pathlib.Path.

    Returns:
        bool, whether it succeeded.
    """
    command = [sys.executable, "-m", worker, *arguments, *programs.modules()]
    log_path = log_of(name, workdir)
    with open(log_path, "ab") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        if child.wait() == 0:
            return True
        print(f"{name} failed, see {log_path}", file=sys.stderr, flush=True)
        return False
    finally:
        if child.poll() is None:  # this process was stopped
            child.terminate()
            child.wait()


def log_of(mixer, workdir):
    """Returns the pathlib.Path of the log of a row."""
    return pathlib.Path(workdir) / f"log-{cells.file_name(mixer)}.txt"
