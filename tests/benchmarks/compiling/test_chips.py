"""The roofline and the all-reduce, against numbers worked out by hand."""

import doctest
import math

import pytest

from benchmarks.compiling import chips
from benchmarks.compiling.chips import CHIPS, V3, all_reduce_seconds, roofline


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
    assert all_reduce_seconds(200e9, 256, chip) == pytest.approx(2 * 255 / 256)
    # 4 x 4 chips, of a torus of 16 x 16: no axis is closed to a ring.
    assert all_reduce_seconds(200e9, 16, chip) == pytest.approx(2 * 2 * 15 / 16)
    chip = CHIPS["v4"]
    assert all_reduce_seconds(chip.reduced_bytes_per_second, 16, chip) == pytest.approx(2 * 15 / 16)


def test_a_slice_has_the_links_of_its_axes():
    chip = CHIPS["v5e"]
    # Published: 4 links a chip, 1,600 Gbit/s together, so 50 GB/s each way; along a ring a chip uses two.
    assert {count: chip.all_reduce_rate(count) for count in chip.slices if count > 1} == pytest.approx(
        {4: 100e9, 8: 100e9, 16: 100e9, 32: 100e9, 64: 100e9, 128: 150e9, 256: 200e9}
    )
    # Along an open axis of k chips k - 1 hops, along a ring half of k; there and back.
    assert [chip.num_hops(count) for count in (1, 4, 8, 16, 128, 256)] == [0, 4, 8, 12, 30, 32]
    assert CHIPS["v4"].num_hops(16) == 30
    for count, axes in chip.slices.items():
        assert math.prod(axes) == count
    with pytest.raises(ValueError, match=r"`num_chips` must be one of 1, 4, .*Received: 2"):
        chip.all_reduce_rate(2)


def test_the_clock_is_the_one_that_gives_the_published_peak():
    # TPU v4 runs at 1,050 MHz: Jouppi et al., 2023, https://arxiv.org/abs/2304.01433, table 4 (?).
    assert CHIPS["v4"].cycles_per_second == pytest.approx(1.05e9, rel=0.01)
    # TPU v3 at 940 MHz: the same table (?).
    assert V3.cycles_per_second == pytest.approx(0.94e9, rel=0.01)
    assert CHIPS["v5e"].cycles_per_second * 4 * 128 * 128 * 2 == pytest.approx(197e12)


def test_examples():
    found = doctest.testmod(chips)
    assert found.attempted
    assert not found.failed
