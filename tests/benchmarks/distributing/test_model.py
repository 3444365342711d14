"""The model of a step, against a ring that is played through and numbers worked out by hand."""

import doctest
import itertools

import pytest

from benchmarks.distributing import model
from benchmarks.distributing.model import Computation, line_through, ring_seconds, step_seconds


def play_ring(num_workers, values):
    """All-reduces lists of numbers part by part around a ring.

    Returns:
        (the list that each worker ends with, hops, the most numbers that a worker has sent).
    """
    size = len(values[0]) // num_workers
    held = [[list(row[p * size : (p + 1) * size]) for p in range(num_workers)] for row in values]
    hops, sent = 0, [0] * num_workers
    for is_sum in (True, False):
        for turn in range(num_workers - 1):
            first = 0 if is_sum else 1
            moves = [(w, (w - turn + first) % num_workers) for w in range(num_workers)]
            messages = [(w, part, list(held[w][part])) for w, part in moves]
            for w, part, message in messages:
                target = held[(w + 1) % num_workers]
                target[part] = (
                    [a + b for a, b in zip(target[part], message, strict=True)] if is_sum else message
                )
                sent[w] += len(message)
            hops += 1
    return [list(itertools.chain.from_iterable(parts)) for parts in held], hops, max(sent)


@pytest.mark.parametrize("num_workers", [2, 3, 4, 7])
def test_a_ring_sends_what_the_formula_says(num_workers):
    count = 6 * num_workers
    values = [[(w + 1) * 10 + i for i in range(count)] for w in range(num_workers)]
    reduced, hops, sent = play_ring(num_workers, values)
    assert reduced == [[sum(column) for column in zip(*values, strict=True)]] * num_workers
    # One number a second; then only the hops, half a second each.
    assert ring_seconds(count, num_workers, bytes_per_second=1.0) == pytest.approx(sent)
    assert ring_seconds(0.0, num_workers, 1.0, hop_seconds=0.5) == pytest.approx(hops * 0.5)


def test_an_exchange_by_hand():
    # 800 MB over 4 workers: 1.2 GB at 2 GB/s; two reductions of 6 hops, 1 ms each.
    assert ring_seconds(800e6, 4, 2e9, hop_seconds=1e-3, reductions=2) == pytest.approx(0.6 + 0.012)
    assert ring_seconds(800e6, 4, 2e9, hop_seconds=1e-3, num_hops=4) == pytest.approx(0.604)
    assert ring_seconds(800e6, 1, 2e9, hop_seconds=1e-3, reductions=2) == 0.0


def test_a_step_hides_no_more_than_it_may():
    assert step_seconds(3.0, 1.0) == pytest.approx(4.0)
    assert step_seconds(3.0, 1.0, hidden_seconds=0.25) == pytest.approx(3.75)
    assert step_seconds(3.0, 1.0, hidden_seconds=2.0) == pytest.approx(3.0)


def test_computation_grows_with_rows_alone():
    found = Computation(fixed_seconds=0.5, seconds_per_row=0.3)
    assert found.seconds(10) == pytest.approx(3.5)
    assert found.backward_seconds(10) == pytest.approx(2.0)  # of 3 s that are of the rows
    assert found.scaled(parameters=2.0, multiply_adds=3.0).seconds(10) == pytest.approx(1.0 + 9.0)


def test_efficiencies_by_hand():
    # 8 workers, of 10 s alone: weak 12.5 s for their own rows; strong 2.5 s for an eighth of them.
    assert model.weak_efficiency(10.0, 12.5) == pytest.approx(0.8)
    assert model.strong_efficiency(10.0, 2.5, 8) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("points", "fixed", "slope"),
    [
        ([(3, 1.1), (12, 2.9)], 0.5, 0.2),
        ([(2, 0.9), (4, 2.1)], 0.0, (2 * 0.9 + 4 * 2.1) / 20),  # the line would begin below 0
        ([(6, 1.5)], 0.0, 0.25),
        ([(2, 3.0), (4, 1.0)], 2.0, 0.0),  # noise: more rows cannot be faster
    ],
)
def test_the_line_through_measured_steps(points, fixed, slope):
    found = line_through(points)
    assert (found.fixed_seconds, found.seconds_per_row) == pytest.approx((fixed, slope))


def test_examples():
    found = doctest.testmod(model)
    assert found.attempted
    assert not found.failed
