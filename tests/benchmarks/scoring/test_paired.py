"""Differences and shares on the same test texts, beside plain loops."""

import doctest

import numpy as np
import pytest

from benchmarks.scoring import paired

RANDOM = np.random.default_rng(1)
LOW = RANDOM.random([2, 60]) * 0.5
HIGH = RANDOM.random([3, 60]) * 0.5 + 0.4
OURS = RANDOM.random([1, 60]) * 0.6 + 0.1


def test_examples():
    done = doctest.testmod(paired)
    assert done.attempted
    assert not done.failed


def test_scores_of_right_and_wrong_differ_as_accuracies_do():
    labels = np.arange(40) % 3
    ours, theirs = RANDOM.integers(3, size=[2, 40]), RANDOM.integers(3, size=40)
    expected = paired.difference(ours, theirs, labels, resamples=500)
    assert paired.score_difference(ours == labels, [theirs == labels], resamples=500) == expected


def test_the_interval_of_a_difference_is_that_of_many_texts():
    ours, theirs = np.arange(400) % 4 < 3, np.arange(400) % 2 == 0
    mean, low, high = paired.score_difference([ours], [theirs])
    half_width = 1.96 * (ours * 1.0 - theirs).std() / 20  # of the normal distribution
    assert mean == 0.25
    assert (high - low) / 2 == pytest.approx(half_width, rel=0.05)


def test_the_interval_counts_the_last_text():
    _, low, high = paired.score_difference([[0] * 19 + [1]], [[0] * 20])
    assert (low, high) == (0, 0.15)


def test_the_share_of_a_gap_by_a_plain_loop():
    share, low, high = paired.share_closed(OURS, LOW, HIGH, resamples=2000)
    ours, lower, upper = (scores.mean(axis=0) for scores in (OURS, LOW, HIGH))
    assert share == pytest.approx((ours.mean() - lower.mean()) / (upper.mean() - lower.mean()))
    draws, shares = np.random.default_rng(7), []
    for _ in range(2000):
        chosen = [int(number) for number in draws.integers(60, size=60)]
        base = sum(lower[i] for i in chosen)
        shares.append((sum(ours[i] for i in chosen) - base) / (sum(upper[i] for i in chosen) - base))
    # Other samples of the same texts: their quantiles differ by a few per cent of the width.
    width = high - low
    assert low == pytest.approx(np.quantile(shares, 0.025), abs=0.1 * width)
    assert high == pytest.approx(np.quantile(shares, 0.975), abs=0.1 * width)


def test_no_share_of_a_gap_that_may_be_none():
    """As many texts are better as are worse."""
    high = LOW + np.where(np.arange(60) % 2, 0.3, -0.29)
    assert paired.share_closed(OURS, LOW, high, resamples=500) is None
    assert paired.share_closed(OURS, HIGH, LOW, resamples=500) is None


def test_a_gap_that_is_barely_there_has_a_share_with_finite_ends():
    texts = np.arange(400)
    low, high = np.zeros([1, 400]), (texts % 40 == 0) * 1.0 - (texts % 200 == 1)  # 10 texts better, 2 worse
    gap = paired.score_difference(high[np.newaxis], low)
    assert 0 < gap[1] < 0.01
    share, lowest, highest = paired.share_closed(high[np.newaxis] / 2, low, high[np.newaxis])
    assert share == pytest.approx(0.5)
    assert np.isfinite([lowest, highest]).all()


def test_if_we_gain_where_a_sample_has_no_gap_its_share_is_the_largest():
    random = np.random.default_rng(3)
    gaps = np.where(np.arange(200) < 12, 1.0, np.where(np.arange(200) < 14, -1.0, 0.0))
    ours, low = random.random([1, 200]) * 0.2 + 0.1, np.zeros([1, 200])
    _, lowest, _ = paired.share_closed(ours, low, gaps[np.newaxis])
    means = [paired._resampled(values, paired.RESAMPLES) for values in (ours[0], gaps)]
    shares = sorted(ours / gap if gap > 0 else np.inf for ours, gap in zip(*means, strict=True))
    assert np.isinf(shares[-1])
    assert lowest == shares[len(shares) // 40 - 1]
