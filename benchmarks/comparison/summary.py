"""Several tasks together: mean scores, mean ranks, and paired tests over the test examples."""

import numpy as np

from benchmarks.comparison.ranks import common, rank
from benchmarks.scoring import paired


def runs_of(plan, mixer, find):
    """Returns the finished fine-tunings of a row.

    Args:
        plan: `benchmarks.comparison.plan.Plan`.
        mixer: str.
        find: function of a `Cell` that returns its result, or None.

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
    """Returns how the mixers compare over all tasks.

    Args:
        plans: dict, task -> `Plan`.
        find: as for `runs_of`.
        start: str, one of `benchmarks.comparison.plan.STARTS`.

    Returns:
        dict: "tasks", those with a finished fine-tuning; "scores", mixer -> task -> mean accuracy over
        seeds; "ranking", a `Ranking` of the mixers with the same tasks, or None; "paired", for the ranked
        mixers and tasks, task -> mixer -> (difference from the first of the ranking, low, high, McNemar's
        p-value for the first seed that both have).
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
    """Returns how much better one mixer is than another on the same test examples.

    Args:
        ours: dict, seed -> result with "hits", which says which examples were right.
        theirs: likewise.
        scores: str, which part of the results is compared: "hits", or "f1s", the F1 of each example.

    Returns:
        (mean over seeds of our mean score minus theirs, low, high, p): the 95% interval by a paired
        bootstrap over the examples, and McNemar's p-value for the first common seed, None if there is none
        or the scores are not hits.
    """
    difference = paired.score_difference(scores_of(ours, scores), scores_of(theirs, scores))
    both = sorted(set(ours) & set(theirs)) if scores == "hits" else ()
    p_value = paired.mcnemar(ours[both[0]]["hits"], theirs[both[0]]["hits"]) if both else None
    return (*difference, p_value)


def scores_of(runs, scores="hits"):
    """Returns the scores of all test examples, float64 [S,N] for S seeds; arguments as for `compared`."""
    return np.array([run[scores] for run in runs.values()], "float64")
