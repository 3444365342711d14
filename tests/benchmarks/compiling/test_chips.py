"""The roofline and the all-reduce, against numbers worked out by hand."""

import doctest

import pytest

from benchmarks.compiling import chips
from benchmarks.compiling.chips import CHIPS, all_reduce_seconds, roofline


def test_the_longer_of_the_two_counts():
    chip = CHIPS["v5e"]
    found = roofline(394e12, 819e9, chip)  # two seconds of operations, one of bytes
    assert (found.compute_seconds, found.memory_seconds) == pytest.approx((2.0, 1.0))
    assert found.seconds == pytest.approx(2.0)
    assert found.bound == "compute"
    found = roofline(197e12, 3 * 819e9, chip)
    assert found.seconds == pytest.approx(3.0)
    assert found.bound == "memory"


def test_an_all_reduce_moves_everything_about_twice():
    chip = CHIPS["v5e"]
    assert chip.reduced_bytes_per_second == pytest.approx(200e9)
    assert all_reduce_seconds(200e9, 1, chip) == 0.0
    assert all_reduce_seconds(200e9, 2, chip) == pytest.approx(1.0)
    assert all_reduce_seconds(200e9, 16, chip) == pytest.approx(2 * 15 / 16)


def test_the_clock_is_the_one_that_gives_the_published_peak():
    # TPU v4 runs at 1,050 MHz: Jouppi et al., 2023, https://arxiv.org/abs/2304.01433, table 4 (?).
    assert CHIPS["v4"].cycles_per_second == pytest.approx(1.05e9, rel=0.01)
    assert CHIPS["v5e"].cycles_per_second * 4 * 128 * 128 * 2 == pytest.approx(197e12)


def test_examples():
    found = doctest.testmod(chips)
    assert found.attempted
    assert not found.failed
