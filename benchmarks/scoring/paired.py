"""Whether one model is better than another on the same test texts."""

import numpy as np
from scipy import stats

RESAMPLES = 10_000
_BLOCK = 1 << 17  # texts that are drawn at a time, which bounds the memory


def difference(ours, theirs, labels, resamples=RESAMPLES):
    """Returns how much more accurate we are, with a paired bootstrap interval over texts.

    Args:
        ours: int array [S,N], the classes that the model of each of S seeds gives to N texts.
        theirs: int array [N], of the other model, or [S',N], of its seeds.
        labels: int array [N].
        resamples: int.

    Returns:
        (mean over seeds of our accuracy minus theirs, low, high), with the 95 % interval over texts, drawn
        with replacement, the same for all models.
    """
    labels = np.asarray(labels)
    return score_difference(np.asarray(ours) == labels, np.atleast_2d(theirs) == labels, resamples)


def score_difference(ours, theirs, resamples=RESAMPLES):
    """Returns the same for scores.

    Args:
        ours: array [S,N] of float in [0, 1] or bool, the score of the model of each of S seeds on N texts.
        theirs: array [S',N], of the other model.
        resamples: int.

    Returns:
        (mean over seeds of our scores minus theirs, low, high), as for `difference`.
    """
    gains = np.mean(ours, axis=0) - np.mean(theirs, axis=0)  # [N], in [-1, 1]
    low, high = np.quantile(_resampled(gains, resamples), [0.025, 0.975])
    return float(gains.mean()), float(low), float(high)


def gain(before, after):
    """Returns by how many points the accuracy on the same texts has grown, with its standard error.

    Args:
        before: bool array [N], which texts are classified correctly.
        after: likewise.

    Returns:
        (mean of the paired differences, its standard error), both in points.

    Example:
    >>> gain(np.array([1, 0, 0, 0], bool), np.array([1, 1, 0, 0], bool))
    (25.0, 25.0)
    """
    gains = 100.0 * after - 100.0 * before
    return float(gains.mean()), float(gains.std(ddof=1) / len(gains) ** 0.5)


def share_closed(ours, low, high, resamples=RESAMPLES):
    """Returns the share of the gap between two models that a third closes: (ours - low) / (high - low).

    The interval is that of the ratio of the two means over the same texts. If a sample of texts has no gap,
    its ratio is infinite, with the sign of our gain; these are less than 2.5 % of the samples if the
    interval of the gap is above 0.

    Args:
        ours: array [S,N] of scores, as for `score_difference`.
        low: array [S',N], of the model at the lower end of the gap.
        high: array [S'',N], of the one at its upper end.
        resamples: int.

    Returns:
        (share, low, high), with the 95 % interval as for `difference`. None if that of the gap is not above
        0: then there may be no gap to close.

    Example:
    >>> low, high = [[0.0] * 8], [[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]]
    >>> share_closed(high, low, high)
    (1.0, 1.0, 1.0)
    >>> share_closed(high, low, low)
    """
    of_ours, of_low, of_high = (np.mean(scores, axis=0) for scores in (ours, low, high))
    gains, gaps = of_ours - of_low, of_high - of_low  # [N]
    mean_gains, mean_gaps = (_resampled(values, resamples) for values in (gains, gaps))
    if np.quantile(mean_gaps, 0.025) <= 0:
        return None
    ratios = np.where(mean_gains > 0, np.inf, -np.inf)
    np.divide(mean_gains, mean_gaps, out=ratios, where=mean_gaps > 0)
    # Quantiles that occur as values, because a number and infinity cannot be interpolated.
    ends = np.quantile(ratios, [0.025, 0.975], method="inverted_cdf")
    return float(gains.mean() / gaps.mean()), float(ends[0]), float(ends[1])


def _resampled(values, resamples):
    """Returns means [resamples] of values [N] of texts drawn with replacement, always the same for an N."""
    draws, count = np.random.default_rng(0), len(values)
    block = max(1, _BLOCK // count)
    sizes = [min(block, resamples - first) for first in range(0, resamples, block)]
    return np.concatenate([values[draws.integers(count, size=(size, count))].mean(axis=1) for size in sizes])


def mcnemar(ours, theirs):
    """Returns the p-value of whether two models are right equally often: McNemar's exact test.

    Of the b + c texts on which exactly one model is right, b are ours. If there is no difference, b is
    binomial with probability 1/2. The test is two-sided.

    Args:
        ours: array [N] of bool or 0 and 1, whether our model is right.
        theirs: likewise.

    Returns:
        float; 1 if no text distinguishes the two.

    Example:
    >>> mcnemar([1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0])
    0.0625
    """
    ours, theirs = np.asarray(ours, bool), np.asarray(theirs, bool)
    alone, other = int(np.sum(ours & ~theirs)), int(np.sum(~ours & theirs))
    return float(stats.binomtest(alone, alone + other).pvalue) if alone + other else 1.0
