"""The shuffle by arithmetic: against the equation in plain Python, one-to-one, and as even as chance."""

import math

import numpy as np
import pytest

from convnlp.data import permutation
from convnlp.data.permutation import permute


def by_loop(position, size, keys):
    """The equation, for one position, with Python's unbounded integers."""

    def h(value, key):
        value ^= key
        for shift in (33, 29):
            value = (value ^ (value >> shift)) * 0xFF51AFD7ED558CCD % 2**64
        return value ^ (value >> 32)

    a = math.ceil(math.sqrt(size))
    b = math.ceil(size / a)
    while True:
        left, right = position % a, position // a
        for number, key in enumerate(keys):
            if number % 2 == 0:
                left = (left + h(right, key)) % a
            else:
                right = (right + h(left, key)) % b
        position = right * a + left
        if position < size:
            return position


@pytest.mark.parametrize("size", [1, 2, 3, 10, 16, 17, 1000, 99_991, 10**8 + 7])
def test_values_are_the_equations(size):
    keys = np.random.SeedSequence([3, 5]).generate_state(12, np.uint64).tolist()
    positions = np.unique(np.linspace(0, size - 1, 50).astype(int))
    assert permute(positions, size, (3, 5)).tolist() == [by_loop(p, size, keys) for p in positions.tolist()]


@pytest.mark.parametrize("size", [*range(1, 40), 255, 256, 257, 10_007])
def test_every_number_comes_once(size):
    for seed in range(3):
        assert np.array_equal(np.sort(permute(range(size), size, seed)), np.arange(size))


def test_places_among_ten_to_the_eighteen_are_known_at_once():
    size = 10**18 + 9
    positions = np.concatenate([np.arange(1000), size - 1 - np.arange(1000)])
    found = permute(positions, size, 0)
    assert len(set(found.tolist())) == 2000
    assert found.min() >= 0
    assert found.max() < size
    # Of 2,000 even numbers the lowest and the highest lie within a hundredth, but for 1 case in 10**8.
    assert found.min() < size // 100
    assert found.max() > size - size // 100


def chi_square(counts):
    """How far counts are from even ones, in standard deviations of chi square."""
    expected = counts.sum() / len(counts)
    freedom = len(counts) - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / math.sqrt(2 * freedom)


@pytest.mark.parametrize("size", [5, 12, 97])
def test_where_a_position_goes_is_even_over_seeds(size):
    """And so is where its neighbour goes from there: what a shuffle that keeps runs together gets wrong."""
    places, steps = np.zeros(size), np.zeros(size)
    for epoch in range(100 * size):
        first, second = permute([0, 1], size, (7, epoch)).tolist()
        places[first] += 1
        steps[(second - first) % size] += 1
    assert abs(chi_square(places)) < 4
    assert steps[0] == 0
    assert abs(chi_square(steps[1:])) < 4


def test_few_rounds_would_be_seen(monkeypatch):
    monkeypatch.setattr(permutation, "NUM_ROUNDS", 4)
    permutation._keys.cache_clear()
    with pytest.raises(AssertionError):
        test_where_a_position_goes_is_even_over_seeds(12)
    permutation._keys.cache_clear()


def test_order_and_place_have_nothing_to_do_with_each_other():
    size = 100_000
    found = permute(range(size), size, 11)
    for lag in (0, 1, 2, 317):  # 317 is a, where the pair of a position begins again
        ahead = np.roll(found, -lag) if lag else np.arange(size)
        assert abs(np.corrcoef(found, ahead)[0, 1]) < 4 / math.sqrt(size)
    # Of neighbours in the new order as many are neighbours in the old one as in any order: 2 on average.
    assert (np.abs(np.diff(found)) == 1).sum() < 12
    assert (permute(range(size), size, 12) == found).sum() < 8  # 1 on average


def test_bad_arguments_are_one_line():
    with pytest.raises(ValueError, match=r"`size` must be an integer in \[1, 2\*\*62\]. Received: size=0"):
        permute([], 0, 0)
    with pytest.raises(ValueError, match=r"`positions` must be in \[0, 5\). Received: 0 to 5"):
        permute([0, 5], 5, 0)
