"""Confidence intervals over seeds."""

import dataclasses
import math

import numpy as np
from scipy import stats

CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class Interval:
    """The mean over seeds and its confidence interval.

    Args:
        mean: float.
        half_width: float, or None for a single seed. The interval of the mean plus and minus this contains
            the mean over all seeds with a confidence of 95 per cent.
        num_seeds: int.
    """

    mean: float
    half_width: float | None
    num_seeds: int

    def percent(self):
        """Returns the text for the tables: `92.2 ± 0.7`."""
        text = f"{100 * self.mean:.1f}"
        return text if self.half_width is None else f"{text} ± {100 * self.half_width:.1f}"


def student(values):
    """Returns Student's t interval over seeds: mean ± t(0.975, n - 1) s / sqrt(n).

    s is the sample standard deviation, and the scores of the seeds are assumed to be normally distributed.
    The interval says what another seed would change, not what another test set would.

    Args:
        values: sequence of floats, one per seed.

    Returns:
        `Interval`.

    Raises:
        ValueError: if there are no values.

    Example:
    >>> student([0.90, 0.92, 0.94]).percent()
    '92.0 ± 5.0'
    """
    values = [float(value) for value in values]
    if not values:
        raise ValueError("`values` must hold the score of at least one seed. Received: none")
    mean, count = float(np.mean(values)), len(values)
    if count == 1:
        return Interval(mean, None, 1)
    quantile = stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)
    return Interval(mean, float(quantile * np.std(values, ddof=1) / math.sqrt(count)), count)
