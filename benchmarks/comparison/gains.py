"""The gain from pre-training: differences between runs with the same seed."""

import numpy as np

from benchmarks.comparison.intervals import student


def gain(runs):
    """Returns the mean over seeds of the pre-trained score minus the score from scratch.

    Args:
        runs: dict, start -> seed -> result, see `benchmarks.comparison.summary.runs_of`.

    Returns:
        `Interval`, or None if no seed has both.
    """
    gains = _by_seed(runs)
    return student(gains.values()) if gains else None


def mean_gain(by_task):
    """Returns the gain averaged over tasks: for each seed over all tasks, then over seeds.

    All tasks count equally, whatever their size. The interval says what another seed would change, not what
    other tasks would.

    Args:
        by_task: dict, task -> runs.

    Returns:
        (`Interval`, list of the tasks), from the seeds that all of these tasks have, or None if there are
        none. A task is left out if none of its seeds has both starts.
    """
    gains = {task: found for task, runs in by_task.items() if (found := _by_seed(runs))}
    seeds = set.intersection(*map(set, gains.values())) if gains else ()
    if not seeds:
        return None
    means = [np.mean([found[seed] for found in gains.values()]) for seed in sorted(seeds)]
    return student(means), list(gains)


def _by_seed(runs):
    scratch, pretrained = runs.get("scratch", {}), runs.get("pretrained", {})
    return {
        seed: pretrained[seed]["accuracy"] - scratch[seed]["accuracy"]
        for seed in sorted(set(scratch) & set(pretrained))
    }
