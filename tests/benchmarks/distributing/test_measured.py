"""Efficiency, exchange and rate, of times that can be worked out by hand."""

import pytest

from benchmarks.distributing import measured

BYTES = 24_000_000


def cell(num_workers, rows, seconds, cpu_seconds, threads=1, num_cores=None):
    cores = num_cores or min(num_workers, 2)
    return {
        "num_workers": num_workers,
        "threads": threads,
        "num_cores": cores,
        "rows": rows,
        "seconds": [seconds, 10 * seconds, 0.1 * seconds],  # the median is the one in the middle
        "cpu_seconds": cpu_seconds,
        "tokens": 128 * num_workers * rows,
        "others_share": 0.02,
        "rounds": 1,
    }


# On two cores; alone a step takes 0.1 s and 0.05 s a row.
CELLS = [
    cell(1, 12, 0.7, 0.72),
    cell(1, 6, 0.4, 0.42),
    cell(1, 4, 0.3, 0.3),
    cell(1, 3, 0.25, 0.25),
    cell(2, 12, 0.8, 1.6),
    cell(2, 6, 0.5, 0.9),
    cell(4, 12, 1.75, 3.2),
    cell(4, 3, 0.7, 1.2),
    cell(1, 24, 0.65, 1.2, threads=2, num_cores=2),
    cell(1, 6, 0.25, 0.4, threads=2, num_cores=2),
]


def test_weak_scaling():
    one, two, four = measured.scaling(CELLS, 12, BYTES, is_weak=True)
    assert [each["num_workers"] for each in (one, two, four)] == [1, 2, 4]
    assert (one["exchange_seconds"], one["efficiency"], one["bytes_per_second"]) == (0.0, 1.0, None)
    assert two["exchange_seconds"] == pytest.approx(0.1)
    assert two["efficiency"] == pytest.approx(0.7 / 0.8)
    assert two["tokens_per_second"] == pytest.approx(2 * 12 * 128 / 0.8)
    assert two["bytes_per_second"] == pytest.approx(24e6 / 0.1)
    assert two["cpu_seconds"] == pytest.approx(1.6 / 24)
    assert two["cpu_efficiency"] == pytest.approx((0.72 / 12) / (1.6 / 24))
    # Two workers a core: twice the time of one without an exchange.
    assert four["compute_seconds"] == pytest.approx(1.4)
    assert four["efficiency"] == pytest.approx(1.4 / 1.75)
    assert four["bytes_per_second"] is None  # what it would say is of the core, not of the exchange


def test_strong_scaling():
    one, two, four = measured.scaling(CELLS, 12, BYTES, is_weak=False)
    assert [each["rows"] for each in (one, two, four)] == [12, 6, 3]
    assert two["compute_seconds"] == pytest.approx(0.4)  # of one worker with six rows
    assert two["exchange_seconds"] == pytest.approx(0.1)
    assert two["efficiency"] == pytest.approx(0.7 / (2 * 0.5))
    assert two["cpu_efficiency"] == pytest.approx((0.72 / 12) / (0.9 / 12))
    assert four["compute_seconds"] == pytest.approx(0.5)
    assert four["efficiency"] == pytest.approx(0.7 / (2 * 0.7))  # of two cores


def test_the_rate_is_that_of_workers_with_cores_of_their_own():
    assert measured.all_reduce_rate(CELLS, 12, BYTES) == pytest.approx(240e6)
    assert measured.all_reduce_rate(CELLS[:4], 12, BYTES) is None
    faster = [*CELLS[:4], cell(2, 12, 0.69, 1.4)]  # than one alone: noise, which is no rate
    assert measured.all_reduce_rate(faster, 12, BYTES) is None


def test_a_machine_has_all_its_cores():
    assert measured.machine_points(CELLS) == [(24, 0.65), (6, 0.25)]
    assert measured.machine_points(CELLS[:2]) == [(12, 0.7), (6, 0.4)]
