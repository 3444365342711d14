"""When memory counts as constant, as growing, and as not known."""

import random

import numpy as np
import pytest

from benchmarks.soaking import trend


def memory(hours, mb_per_hour=0.0, noise=0.0, warmup_mb=0.0, peak_mb=0.0):
    """Samples, one every five seconds: (seconds, megabytes)."""
    draw = random.Random(0)
    seconds = [5.0 * i for i in range(int(hours * 720) + 1)]
    values = []
    for number, second in enumerate(seconds):
        rising = warmup_mb * min(1.0, second / (hours * 900))  # for the first quarter
        peak = peak_mb if number % 40 == 0 else 0.0
        values.append(500 + rising + peak + mb_per_hour * second / 3600 + draw.gauss(0, noise))
    return seconds, values


@pytest.mark.parametrize(
    ("arguments", "verdict"),
    [
        ({"hours": 2}, "constant"),
        ({"hours": 2, "noise": 2, "warmup_mb": 300, "peak_mb": 200}, "constant"),
        ({"hours": 2, "mb_per_hour": 5, "noise": 1}, "constant"),
        ({"hours": 2, "mb_per_hour": 15, "noise": 1}, "grows"),
        ({"hours": 2, "mb_per_hour": 15, "noise": 1, "warmup_mb": 300}, "grows"),
        ({"hours": 0.05, "noise": 20}, "too short to tell"),
        ({"hours": 0.02}, "too short to tell"),  # one sample a block
    ],
)
def test_verdicts(arguments, verdict):
    assert trend.memory_trend(*memory(**arguments))["verdict"] == verdict


def test_the_slope_is_found_within_its_interval():
    found = trend.memory_trend(*memory(hours=3, mb_per_hour=40, noise=5))
    assert found["low"] < 40 < found["high"]
    assert found["low"] < found["mb_per_hour"] < found["high"]


def test_the_interval_is_that_of_a_regression_by_hand():
    """The warm-up, then two samples for each of twelve blocks."""
    seconds = [3600.0 * i for i in range(36)]
    medians = np.random.default_rng(0).normal(size=12)
    found = trend.memory_trend(seconds, [0.0] * 12 + np.repeat(medians, 2).tolist())
    hours = np.arange(12) * 2 + 12.5
    (slope, _), ((variance, _), _) = np.polyfit(hours, medians, 1, cov=True)
    assert found["mb_per_hour"] == pytest.approx(slope)
    # t(0.975, 10) = 2.2281 of any table
    assert found["high"] - slope == pytest.approx(2.2281 * variance**0.5, rel=1e-4)
    assert slope - found["low"] == pytest.approx(2.2281 * variance**0.5, rel=1e-4)


def test_hardly_anything_was_sampled():
    for count in (0, 1, 2):
        found = trend.memory_trend([5.0 * i for i in range(count)], [500.0] * count)
        assert found["verdict"] == "too short to tell"
