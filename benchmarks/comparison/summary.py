"""Several tasks together: mean scores, mean ranks, and paired tests over the test examples."""

import numpy as np

from benchmarks.comparison.ranks import common, rank
from benchmarks.scoring import paired


def runs_of(plan, mixer, find):
    """The finished fine-tunings of a row.

    Args:
        plan: `benchmarks.comparison.plan.Plan`.
        mixer: str.
        find: function of a `Cell` -> its result, or None.

    Returns:
        dict, start -> seed -> result.
    """
    runs = {}
    for cell in plan.cells(mixer):
        result = find(cell) if cell.kind == "finetune" else None
        if result is not None:
            runs.setdefault(cell.settings["start"], {})[cell.settings["seed"]] = result
    return runs


def collect(plans, find, start):
    """Who leads over all tasks.

    Args:
        plans: dict, task -> `Plan`.
        find: as of `runs_of`.
        start: str, of `benchmarks.comparison.plan.STARTS`.

    Returns:
        dict: "tasks", those of which something is finished; "scores", mixer -> task -> mean accuracy over
        seeds; "ranking", a `Ranking` of the mixers with the same tasks, or None; "paired", task -> mixer ->
        (difference to the first of the ranking, low, high, McNemar's p-value of the first seed that both
        have), of the ranking.
    """
    runs = {}
    for mixer in dict.fromkeys(mixer for plan in plans.values() for mixer in plan.mixers):
        for task, plan in plans.items():
            found = runs_of(plan, mixer, find).get(start) if mixer in plan.mixers else None
            if found:
                runs.setdefault(mixer, {})[task] = found
    scores = {
        mixer: {
            task: float(np.mean([run["accuracy"] for run in found.values()]))
            for task, found in by_task.items()
        }
        for mixer, by_task in runs.items()
    }
    ranked = common(scores)
    ranking = rank(ranked) if ranked else None
    tests = {}
    if ranking:
        first, *others = ranking.ranks
        tests = {
            task: {mixer: compared(runs[mixer][task], runs[first][task]) for mixer in others}
            for task in ranked[first]
        }
    done = [task for task in plans if any(task in found for found in scores.values())]
    return {"tasks": done, "scores": scores, "ranking": ranking, "paired": tests}


def compared(ours, theirs, scores="hits"):
    """How much better the one is on the same test examples.

    Args:
        ours: dict, seed -> result with "hits", which examples were right.
        theirs: likewise.
        scores: str, what of the results is compared: "hits", or "f1s", the F1 of each example.

    Returns:
        (mean over seeds of our mean score less theirs, low, high, p): the interval of 95 % by a paired
        bootstrap over the examples; McNemar's p-value for the first seed of both, None without one or of
        other scores than hits.
    """
    difference = paired.score_difference(scores_of(ours, scores), scores_of(theirs, scores))
    both = sorted(set(ours) & set(theirs)) if scores == "hits" else ()
    p_value = paired.mcnemar(ours[both[0]]["hits"], theirs[both[0]]["hits"]) if both else None
    return (*difference, p_value)


def scores_of(runs, scores="hits"):
    """Scores of all test examples: float array [S,N] of the seeds of `runs`; arguments as of `compared`."""
    return np.array([run[scores] for run in runs.values()], "float64")
