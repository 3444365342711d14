"""Decides whether memory grows.

The first third of the samples is warm-up. The rest is cut into `NUM_BLOCKS` blocks of equal time, because
consecutive samples are alike and would make any trend seem certain; each block counts by its median, so that
a momentary peak does not matter. A straight line is fitted to the medians, and its slope gets a 95 %
confidence interval by Student's t. Memory is constant if the interval lies below `BOUND_MB_PER_HOUR`, and
grows if it lies above; in between, the soak was too short to tell. The bound is what a process may take
unnoticed in a day: a quarter of a gigabyte.
"""

import statistics

import numpy as np
import scipy.stats

NUM_BLOCKS = 12
BOUND_MB_PER_HOUR = 10.0
CONFIDENCE = 0.95


def memory_trend(seconds, megabytes):
    """Fits the line.

    Args:
        seconds: list of float, increasing.
        megabytes: list of float, of the same length.

    Returns:
        dict of `mb_per_hour`, `low` and `high` (the interval), and `verdict`: "constant", "grows" or "too
        short to tell"; the numbers are None if there are fewer than two samples per block.
    """
    pairs = list(zip(seconds, megabytes, strict=True))
    pairs = [pair for pair in pairs if pair[0] >= pairs[0][0] + (pairs[-1][0] - pairs[0][0]) / 3]
    blocks = _blocks(pairs)
    if min(map(len, blocks), default=0) < 2:
        return {"mb_per_hour": None, "low": None, "high": None, "verdict": "too short to tell"}
    hours = [statistics.mean(s for s, _ in block) / 3600 for block in blocks]
    medians = [statistics.median(m for _, m in block) for block in blocks]
    slope, half = _slope(np.asarray(hours), np.asarray(medians))
    low, high = slope - half, slope + half
    verdict = "too short to tell"
    if high < BOUND_MB_PER_HOUR:
        verdict = "constant"
    elif low > BOUND_MB_PER_HOUR:
        verdict = "grows"
    return {"mb_per_hour": slope, "low": low, "high": high, "verdict": verdict}


def longest_life(rows):
    """Returns the samples of the process that was sampled longest; each one begins with little memory.

    Args:
        rows: list of dict with `life`, the number of the process, and `seconds`, increasing in each life.

    Returns:
        list of dict.
    """
    lives = {}
    for row in rows:
        lives.setdefault(row["life"], []).append(row)
    return max(lives.values(), key=lambda own: own[-1]["seconds"] - own[0]["seconds"], default=[])


def _blocks(pairs):
    if len(pairs) < 2:
        return []
    first, last = pairs[0][0], pairs[-1][0]
    blocks = [[] for _ in range(NUM_BLOCKS)]
    for pair in pairs:
        place = (pair[0] - first) / (last - first) if last > first else 0.0
        blocks[min(int(NUM_BLOCKS * place), NUM_BLOCKS - 1)].append(pair)
    return blocks


def _slope(x, y):
    """Returns the slope of the line through the points, and half the width of its confidence interval."""
    if np.ptp(y) == 0:  # the library would divide by zero
        return 0.0, 0.0
    fit = scipy.stats.linregress(x, y)
    quantile = scipy.stats.t.ppf((1 + CONFIDENCE) / 2, len(x) - 2)
    return float(fit.slope), float(quantile * fit.stderr)
