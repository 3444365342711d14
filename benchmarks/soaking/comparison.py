"""Compares a training run that suffered faults with one that was left alone."""

import json

import h5py
import numpy as np

from benchmarks import tiny_run


def compare(workdir, alone, steps, lost_until=None):
    """Returns the differences between the two runs at their end.

    Args:
        workdir: pathlib.Path, of the run with faults.
        alone: pathlib.Path, of the undisturbed run.
        steps: int, of both.
        lost_until: int, the step until which lines of the metrics may be missing. Default None: none may.

    Returns:
        list of str.
    """
    problems = [
        f"{name} differs in the last checkpoint" for name in tiny_run.different_values(workdir, alone, steps)
    ]
    lines, others = tiny_run.metrics_lines(workdir), tiny_run.metrics_lines(alone)
    if lost_until is not None:  # the remaining lines must be the last ones, without a gap
        needed = [line for line in others if json.loads(line)["step"] > lost_until]
        others = others[len(others) - max(len(lines), len(needed)) :]
    if lines != others:
        problems.append("metrics.jsonl differs")
    return problems + [f"preset: {name} differs" for name in _different_weights(workdir, alone)]


def _different_weights(workdir, alone):
    weights, others = (_weights(each / "preset" / "model.weights.h5") for each in (workdir, alone))
    return sorted(name for name in {*weights, *others} if weights.get(name) != others.get(name))


def _weights(path):
    found = {}
    with h5py.File(path, "r") as file:
        file.visititems(
            lambda name, item: (
                found.update({name: np.asarray(item).tobytes()}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return found
