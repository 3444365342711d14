"""Which of several models is better over several tasks: mean ranks, and how far apart they must be."""

import dataclasses
import math

import numpy as np
from scipy import stats

SIGNIFICANCE = 0.05


@dataclasses.dataclass(frozen=True)
class Ranking:
    """Models by their mean rank over tasks.

    Args:
        ranks: dict, name -> float, the best first; 1 is the best possible.
        p_value: float, of Friedman's test of whether all are alike; None for fewer than three models.
        critical_difference: float. Mean ranks that differ by less may be alike, by Nemenyi's test.
        num_tasks: int.
    """

    ranks: dict
    p_value: float | None
    critical_difference: float
    num_tasks: int

    def alike(self):
        """Returns the largest groups whose mean ranks differ by less than the critical difference.

        Returns:
            List of lists of two or more names, the best group first.

        Example:
        >>> Ranking({"a": 1.0, "b": 2.0, "c": 3.0}, 0.01, 1.5, 9).alike()
        [['a', 'b'], ['b', 'c']]
        """
        names = list(self.ranks)
        groups, end = [], 0
        for first, name in enumerate(names):
            limit = self.ranks[name] + self.critical_difference
            last = max(index for index in range(first, len(names)) if self.ranks[names[index]] < limit)
            if last > first and last >= end:
                groups.append(names[first : last + 1])
                end = last + 1
        return groups


def rank(scores):
    """Ranks the models on each task and averages the ranks.

    CD = q sqrt(k (k + 1) / (6 N)), with k models, N tasks, and q the quantile of the studentized range for
    k groups and infinitely many degrees of freedom, divided by sqrt(2). Friedman's statistic is corrected
    for ties, and its p-value is that of the chi-square distribution, which is approximate for few tasks.

    Source: Demsar, 2006, "Statistical Comparisons of Classifiers over Multiple Data Sets", section 3.2,
    https://jmlr.org/papers/v7/demsar06a.html.

    Args:
        scores: dict, name -> dict, task -> float, higher is better; the same tasks for all models.

    Returns:
        `Ranking`.

    Raises:
        ValueError: if there are fewer than two models or no tasks, or if the tasks differ.

    Example:
    >>> scores = {"a": {"x": 0.9, "y": 0.8}, "b": {"x": 0.7, "y": 0.8}}
    >>> rank(scores).ranks
    {'a': 1.25, 'b': 1.75}
    """
    tasks = list(next(iter(scores.values()), {}))
    if len(scores) < 2 or not tasks or any(set(found) != set(tasks) for found in scores.values()):
        sizes = {name: len(found) for name, found in scores.items()}
        raise ValueError(f"`scores` must be for two or more models on the same tasks. Received: {sizes}")
    table = np.array([[found[task] for task in tasks] for found in scores.values()])  # [k,N]
    means = stats.rankdata(-table, axis=0).mean(axis=1)
    order = np.argsort(means, kind="stable")
    names = list(scores)
    differs = any(len(set(column)) > 1 for column in table.T.tolist())
    p_value = None
    if len(scores) > 2:
        p_value = float(stats.friedmanchisquare(*table).pvalue) if differs else 1.0
    return Ranking(
        ranks={names[index]: float(means[index]) for index in order},
        p_value=p_value,
        critical_difference=critical_difference(len(scores), len(tasks)),
        num_tasks=len(tasks),
    )


def critical_difference(num_models, num_tasks):
    """Returns Nemenyi's critical difference, see `rank`.

    Example:
    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    quantile = stats.studentized_range.ppf(1 - SIGNIFICANCE, num_models, math.inf) / math.sqrt(2)
    return float(quantile * math.sqrt(num_models * (num_models + 1) / (6 * num_tasks)))


def common(scores):
    """Returns the models and tasks that can be ranked if some scores are missing.

    Args:
        scores: dict, name -> dict, task -> float.

    Returns:
        The scores on one model's tasks of all models that have these tasks, with that model chosen so that
        they are as many as possible. Empty if no two models have a task in common.

    Example:
    >>> common({"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 4}, "c": {"x": 5}, "d": {}})
    {'a': {'x': 1, 'y': 2}, 'b': {'x': 3, 'y': 4}}
    """
    best = {}
    for wanted in scores.values():
        chosen = {name: found for name, found in scores.items() if set(wanted) <= set(found)}
        if len(chosen) > 1 and len(chosen) * len(wanted) > sum(map(len, best.values())):
            best = {name: {task: found[task] for task in wanted} for name, found in chosen.items()}
    return best
