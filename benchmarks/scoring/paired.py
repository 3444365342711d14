"""Whether one model is better than another on the same test texts."""

import numpy as np

RESAMPLES = 10_000


def difference(ours, theirs, labels, resamples=RESAMPLES):
    """How much more accurate we are, and what other texts of the same kind might say: a paired bootstrap.

    Args:
        ours: int array [S,N], the classes that the model of each of S seeds gives to N texts.
        theirs: int array [N], of the other model.
        labels: int array [N].
        resamples: int.

    Returns:
        (mean over seeds of our accuracy less theirs, low, high): the interval of 95 % over texts, drawn with
        replacement, the same for all models.
    """
    ours, theirs, labels = np.asarray(ours), np.asarray(theirs), np.asarray(labels)
    gains = np.mean(ours == labels, axis=0) - (theirs == labels)  # [N], in [-1, 1]
    draws = np.random.default_rng(0)
    means = [gains[draws.integers(len(gains), size=len(gains))].mean() for _ in range(resamples)]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(gains.mean()), float(low), float(high)
