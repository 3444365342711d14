"""The results of the finished cells of a comparison, one row per mixer."""

import dataclasses

import numpy as np

from benchmarks.comparison.gains import gain
from benchmarks.comparison.intervals import student

NUM_LENGTH_GROUPS = 4


def collect(plan, workdir):
    """Returns the rows of all mixers that have at least one finished fine-tuning, best score first.

    Args:
        plan: `benchmarks.comparison.plan.Plan`.
        workdir: str.

    Returns:
        List of dicts: "mixer"; "parameters" and "multiply_adds"; speeds and memory if they were measured;
        "pretraining", the result of that cell or None; "starts", start -> {"seeds", "accuracies", "mean",
        "half_width", "steps", "cpu_seconds", "learning_rate", "curve", "by_length"}; "gain", the mean over
        seeds of pre-trained minus from scratch, or None.
    """
    every_row = [_row(plan, workdir, mixer) for mixer in plan.mixers]
    rows = [row for row in every_row if row["starts"]]
    return sorted(rows, key=lambda row: -max(start["mean"] for start in row["starts"].values()))


def _row(plan, workdir, mixer):
    row, runs = {"mixer": mixer, "pretraining": None, "starts": {}, "gain": None}, {}
    for cell in plan.cells(mixer):
        result = cell.result(workdir)
        if result is None:
            continue
        if cell.kind == "measure" and cell.settings["length"] == plan.data.length:
            row |= result
        elif cell.kind == "pretrain":
            row["pretraining"] = result
        elif cell.kind == "finetune":
            row |= {name: result[name] for name in ("parameters", "multiply_adds")}
            runs.setdefault(cell.settings["start"], {})[cell.settings["seed"]] = result
    row["starts"] = {start: _start(by_seed) for start, by_seed in runs.items()}
    found = gain(runs)
    row["gain"] = found and dataclasses.asdict(found)
    return row


def _start(by_seed):
    runs = [by_seed[seed] for seed in sorted(by_seed)]
    accuracies = [run["accuracy"] for run in runs]
    score = student(accuracies)
    return {
        "seeds": sorted(by_seed),
        "accuracies": accuracies,
        "mean": score.mean,
        "half_width": score.half_width,
        "steps": runs[0]["steps"],
        "cpu_seconds": float(np.mean([run["cpu_seconds"] for run in runs])),
        "learning_rate": runs[0]["learning_rate"],
        "curve": np.mean([run["curve"] for run in runs], axis=0).tolist(),
        # A cell restored from docs/paper.json does not have the lengths of its texts.
        "by_length": by_length([run["lengths"] for run in runs], [run["hits"] for run in runs])
        if all("lengths" in run for run in runs)
        else [],
    }


def by_length(lengths, hits):
    """Returns the accuracy by the length of the texts.

    Args:
        lengths: list of lists of ints, per seed and text; the same texts for all seeds.
        hits: list of lists of 0 or 1, likewise.

    Returns:
        List of dicts {"shortest", "longest", "num_texts", "accuracy"} of groups of about equal size.

    Example:
    >>> groups = by_length([[2, 3, 3, 9]], [[1, 1, 0, 0]])
    >>> [(group["shortest"], group["longest"], group["accuracy"]) for group in groups]
    [(2, 2, 1.0), (3, 3, 0.5), (9, 9, 0.0)]
    """
    lengths, hits = np.asarray(lengths[0]), np.mean(hits, axis=0)
    shares = np.linspace(0, 1, NUM_LENGTH_GROUPS + 1)[1:-1]
    longest = np.unique(np.quantile(lengths, shares, method="inverted_cdf"))  # of all groups but the last
    group_of = np.searchsorted(longest, lengths)
    groups = [(lengths[group_of == group], hits[group_of == group]) for group in np.unique(group_of)]
    return [
        {
            "shortest": int(of_group.min()),
            "longest": int(of_group.max()),
            "num_texts": len(of_group),
            "accuracy": float(right.mean()),
        }
        for of_group, right in groups
    ]
