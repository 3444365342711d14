"""Whether one model is better than another on the same test texts."""

import numpy as np
from scipy import stats

RESAMPLES = 10_000


def difference(ours, theirs, labels, resamples=RESAMPLES):
    """How much more accurate we are, and what other texts of the same kind might say: a paired bootstrap.

    Args:
        ours: int array [S,N], the classes that the model of each of S seeds gives to N texts.
        theirs: int array [N], of the other model, or [S',N], of its seeds.
        labels: int array [N].
        resamples: int.

    Returns:
        (mean over seeds of our accuracy less theirs, low, high): the interval of 95 % over texts, drawn with
        replacement, the same for all models.
    """
    ours, theirs, labels = np.asarray(ours), np.atleast_2d(theirs), np.asarray(labels)
    gains = np.mean(ours == labels, axis=0) - np.mean(theirs == labels, axis=0)  # [N], in [-1, 1]
    draws = np.random.default_rng(0)
    means = [gains[draws.integers(len(gains), size=len(gains))].mean() for _ in range(resamples)]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(gains.mean()), float(low), float(high)


def mcnemar(ours, theirs):
    """Whether two models are right equally often, by the texts on which one alone is: McNemar's exact test.

    Of b + c such texts, b ours, b is binomial with 1/2 if there is no difference; the p-value has two sides.

    Args:
        ours: array [N] of bool or 0 and 1, whether our model is right.
        theirs: likewise.

    Returns:
        float, the p-value; 1 if no text tells the two apart.

    Example:
    >>> mcnemar([1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0])
    0.0625
    """
    ours, theirs = np.asarray(ours, bool), np.asarray(theirs, bool)
    alone, other = int(np.sum(ours & ~theirs)), int(np.sum(~ours & theirs))
    return float(stats.binomtest(alone, alone + other).pvalue) if alone + other else 1.0
