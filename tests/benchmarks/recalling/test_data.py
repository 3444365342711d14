"""The rows ask what they say they ask, and nothing but that tells the answer."""

import numpy as np
import pytest

from benchmarks.recalling import data

DISTANCES = (8, 16, 512)
COUNT = 3000


def rows_of(task, distance, count=COUNT, part="train", seed=0):
    return data.TASKS[task](distance, count, data.stream(part, seed))


def rate_bound(rate, trials):
    """Six standard errors above a rate: a maximum over some hundred rules stays below."""
    return rate + 6 * np.sqrt(rate * (1 - rate) / trials)


@pytest.mark.parametrize("distance", DISTANCES)
def test_the_answer_is_the_value_of_the_one_pair_with_the_key(distance):
    rows = rows_of("recall", distance, count=50)
    assert rows.ids.shape == (50, 16 + distance + 8, 2)
    for row, answers in zip(rows.ids, rows.answers, strict=True):
        apart = []
        for position, answer in zip(rows.positions, answers, strict=True):
            key, value = row[position]
            assert data.FIRST_KEY <= key < data.FIRST_FILLER
            assert value == data.BLANK
            (pair,) = [earlier for earlier in range(position) if row[earlier, 0] == key]
            assert row[pair, 1] == answer
            assert not np.any(row[position + 1 :, 0] == key)
            apart.append(position - pair)
        assert np.mean(apart) == distance
        assert distance - 7 <= min(apart) <= max(apart) <= distance + 7
        assert len(set(row[rows.positions, 0])) == 8
        others = np.delete(row, [*rows.positions, *(np.array(rows.positions) - distance)], axis=0)
        assert np.all((others[:, 0] >= data.FIRST_FILLER) & (others[:, 0] < data.BLANK))
        assert np.all(others[:, 1] == data.BLANK)


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_copied_answer_stands_so_far_before(distance):
    rows = rows_of("copy", distance, count=50)
    for row, answers in zip(rows.ids, rows.answers, strict=True):
        assert [row[position - distance, 1] for position in rows.positions] == answers.tolist()
    assert np.all(rows.ids[:, :, 0] == data.BLANK)
    assert min(rows.positions) - distance >= data.MARGIN


@pytest.mark.parametrize("task", data.TASKS)
def test_answers_are_uniform_and_of_no_other(task):
    """Chi-squared of 31 degrees of freedom is below 80 but in one case of 300,000."""
    rows = rows_of(task, 8)
    expected = rows.answers.size / data.NUM_VALUES
    counts = np.bincount(rows.answers.ravel(), minlength=data.NUM_VALUES)
    assert np.sum((counts - expected) ** 2 / expected) < 80
    same = np.mean(rows.answers[:, 1:] == rows.answers[:, :-1])
    assert same < rate_bound(1 / data.NUM_VALUES, rows.answers[:, 1:].size)


def test_positions_alone_tell_no_more_than_one_of_the_pairs():
    rows = rows_of("recall", 16)
    floor = 1 / 8 + 7 / 8 / data.NUM_VALUES
    for slot, position in enumerate(rows.positions):
        for pair in range(data.MARGIN, data.MARGIN + 8):
            hits = np.mean(rows.ids[:, pair, 1] == rows.answers[:, slot])
            assert hits < rate_bound(floor, COUNT), (position, pair)


def test_the_best_without_keys_is_the_most_frequent_value():
    answers = rows_of("recall", 8, count=20_000).answers
    highest = [max(np.bincount(row)) for row in answers]
    error = np.std(highest) / 8 / np.sqrt(len(highest))
    assert data.share_without_keys() == pytest.approx(np.mean(highest) / 8, abs=5 * error)


def test_a_key_alone_tells_nothing_of_its_value():
    seen, fresh = rows_of("recall", 8), rows_of("recall", 8, part="test")
    table = np.zeros([data.VOCABULARY_SIZE, data.NUM_VALUES])
    np.add.at(table, (seen.ids[:, seen.positions, 0], seen.answers), 1)
    guesses = table.argmax(axis=1)[fresh.ids[:, fresh.positions, 0]]
    assert np.mean(guesses == fresh.answers) < rate_bound(1 / data.NUM_VALUES, fresh.answers.size)


@pytest.mark.parametrize("task", data.TASKS)
def test_a_part_has_its_own_rows_and_always_the_same(task):
    parts = {
        (part, seed): {row.tobytes() for row in rows_of(task, 8, part=part, seed=seed).ids}
        for part in data.PARTS
        for seed in (0, 1)
    }
    assert all(len(found) == COUNT for found in parts.values())
    assert len(set.union(*parts.values())) == 6 * COUNT
    again = rows_of(task, 8, part="validation")
    assert {row.tobytes() for row in again.ids} == parts["validation", 0]
