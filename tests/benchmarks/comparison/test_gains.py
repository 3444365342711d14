import pytest

from benchmarks.comparison.gains import gain, mean_gain


def runs(scratch, pretrained):
    return {
        start: {seed: {"accuracy": value} for seed, value in found.items()}
        for start, found in (("scratch", scratch), ("pretrained", pretrained))
    }


EASY = runs({1: 0.5, 2: 0.75}, {1: 0.75, 2: 0.875})  # gains of 1/4 and 1/8
HARD = runs({1: 0.5, 2: 0.5, 3: 0.5}, {1: 0.5, 2: 0.625})  # of 0 and 1/8


def test_a_gain_is_paired_by_seed():
    found = gain(EASY)
    assert found.mean == pytest.approx(3 / 16)
    assert found.num_seeds == 2
    # t(0.975, 1) = 12.706; s / sqrt(2) of two values is half of their distance.
    assert found.half_width == pytest.approx(12.706 / 16, rel=1e-4)
    assert gain(runs({1: 0.5}, {2: 0.75})) is None
    assert gain({}) is None


def test_the_mean_gain_is_that_of_each_seed_over_the_tasks():
    interval, tasks = mean_gain({"easy": EASY, "hard": HARD, "waiting": runs({1: 0.5}, {})})
    assert tasks == ["easy", "hard"]
    assert interval.mean == pytest.approx(1 / 8)
    assert interval.half_width == pytest.approx(0, abs=1e-9)  # 1/8 for each seed
    assert mean_gain({}) is None
    assert mean_gain({"easy": EASY, "other": runs({5: 0.5}, {5: 0.5})}) is None  # no seed of both
