"""Validation examples that are held out of the training data."""

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf

from convnlp.data import SourceError, validation
from convnlp.data.examples import Examples

RNG = np.random.default_rng(0)


def examples(count, labels):
    rows = [RNG.integers(3, 9999, RNG.integers(3, 9)).tolist() for _ in range(count)]
    return Examples((tf.ragged.constant(rows, tf.int32),), (9,), labels)


def rows_of(found):
    return [tuple(row) for row in found.columns[0].to_list()]


def reordered(found, order):
    return dataclasses.replace(
        found, columns=(tf.gather(found.columns[0], order),), labels=found.labels[order]
    )


@pytest.mark.parametrize(("count", "expected"), [(100, 20), (1000, 200), (5000, 500), (30_000, 2000)])
def test_the_share_follows_from_the_size(count, expected):
    found = examples(count, None)
    assert np.sum(validation.choose(found)) == expected


def test_each_class_gives_the_same_share_though_the_file_is_sorted():
    labels = np.repeat([0, 1, 2], [2000, 900, 100])
    is_held = validation.choose(examples(3000, labels))
    assert np.bincount(labels[is_held]).tolist() == [200, 90, 10]


@pytest.mark.parametrize(("sizes", "held_out"), [([2] * 50, 20), ([3] * 20 + [2] * 20, 20), ([5] * 20, 20)])
def test_no_more_than_a_fifth_of_many_small_classes(sizes, held_out):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    is_held = validation.choose(examples(len(labels), labels))
    assert np.sum(is_held) == held_out
    given = np.bincount(labels[is_held], minlength=len(sizes))
    assert given.max() == 1
    assert given[:20].all()  # the largest first


def test_the_fewest_examples_that_can_be_split():
    assert np.sum(validation.choose(examples(3, np.array([0, 1, 0])))) == 1
    assert np.sum(validation.choose(examples(2, None))) == 1


def test_of_several_labels_the_rarest_gives_its_share():
    number = np.arange(3000)
    labels = np.stack([number < 2900, number % 2 == 0, number % 100 == 0], 1).astype("float32")
    is_held = validation.choose(examples(3000, labels))
    assert np.sum(is_held) == 300
    assert labels[is_held][:, 2].sum() == 3  # of 30
    assert (~labels[is_held].any(1)).sum() == 5  # of 50 without any


def test_the_order_of_the_data_does_not_matter():
    found = examples(400, RNG.integers(0, 3, 400))
    order = RNG.permutation(400)
    is_held, other = validation.choose(found), validation.choose(reordered(found, order))
    assert np.array_equal(is_held[order], other)


def test_equal_texts_are_on_one_side_whatever_their_class():
    found = examples(200, RNG.integers(0, 2, 200))
    twice = dataclasses.replace(
        found,
        columns=(tf.concat([found.columns[0]] * 2, 0),),
        labels=np.concatenate([found.labels, 1 - found.labels]),
    )
    is_held = validation.choose(twice)
    assert np.array_equal(is_held[:200], is_held[200:])
    assert 0 < np.sum(is_held) < 200


def variants(count):
    """Texts without equal tokens, of which the second half is like the first, and numbers that say so."""
    found = examples(2 * count, RNG.integers(0, 2, 2 * count))
    return found, np.tile(np.arange(1, count + 1, dtype=np.uint64), 2)


def test_texts_that_are_alike_are_on_one_side():
    found, alike = variants(150)
    order = RNG.permutation(300)
    is_held = validation.choose(found, alike)
    assert np.array_equal(is_held[:150], is_held[150:])
    assert 50 < np.sum(is_held) < 70
    assert np.array_equal(is_held[order], validation.choose(reordered(found, order), alike[order]))


def test_without_texts_that_are_alike_the_choice_is_as_before():
    found = examples(300, RNG.integers(0, 3, 300))
    for alike in (np.arange(1, 301, dtype=np.uint64), np.zeros(300, np.uint64)):
        assert np.array_equal(validation.choose(found), validation.choose(found, alike))
        assert np.array_equal(validation.folds(found, 5), validation.folds(found, 5, alike))


def test_groups_say_what_belongs_together():
    found, alike = variants(100)
    found = dataclasses.replace(found, groups=np.arange(200, dtype=np.uint64) // 10)
    assert np.array_equal(validation.choose(found), validation.choose(found, alike))


def test_a_class_of_one_text_is_trained_on():
    labels = np.repeat([0, 1], [99, 1])
    assert not validation.choose(examples(100, labels))[-1]


def test_a_frequent_text_stays_in_training():
    found = examples(1000, np.repeat([0, 1], 500))
    for frequent in range(600, 620):
        is_held = validation.choose(found.take(np.r_[0:600, np.full(400, frequent)]))  # most of class 1
        assert not is_held[600:].any()
        assert [np.sum(is_held[:500]), np.sum(is_held[500:])] == [100, 20]


def test_the_rarest_of_several_labels_is_the_class():
    labels = np.array([[1, 1, 0], [1, 0, 0], [1, 0, 1], [0, 0, 0]], "float32")
    assert validation._classes(labels, 4).tolist() == [1, 0, 2, -1]


def test_of_frequent_texts_alone_the_rarest_is_held_out():
    found = examples(3, None)
    repeated = found.take(np.repeat([0, 1, 2], [50, 20, 30]))
    assert np.flatnonzero(validation.choose(repeated)).tolist() == [*range(50, 70)]


def test_one_text_with_several_targets_is_on_one_side():
    found, targets = examples(50, None), examples(200, None).columns[0]
    several = Examples((tf.concat([found.columns[0]] * 4, 0), targets), (9, 9))
    is_held = validation.choose(several)
    assert np.array_equal(is_held, np.tile(is_held[:50], 4))
    assert np.sum(is_held) == 40
    assert np.array_equal(
        is_held, validation.choose(dataclasses.replace(several, columns=several.columns[:1]))
    )


@pytest.mark.parametrize("count", [1, 2])
def test_a_class_whose_texts_are_in_others_too_is_trained_on(count):
    found, labels = examples(20, None), np.repeat([0, 1], [20, count])
    for first in range(20):
        others = (first + np.arange(count)) % 20
        is_held = validation.choose(dataclasses.replace(found.take(np.r_[0:20, others]), labels=labels))
        assert is_held[labels == 0].any()
        assert not is_held[labels == 1].all()


@pytest.mark.parametrize("count", [1, 3])
def test_the_same_text_everywhere_cannot_be_split(count):
    found = Examples((tf.ragged.constant([[5, 6, 1]] * count, tf.int32),), (9,), np.zeros(count, np.int64))
    with pytest.raises(
        SourceError, match=f"`data.validation_split` must name a split: .* Received: {count} exa"
    ):
        validation.choose(found)


@pytest.mark.parametrize(("order", "different"), [(range(9), 9), ([0, 2, 4] * 3, 3)])
def test_the_error_tells_ids_as_classes_from_texts_that_read_alike(order, different):
    found = examples(9, np.arange(9)).take([*order])
    what = f"9 examples ({different} different as they are read, {different} classes)"
    with pytest.raises(SourceError, match=f"Received: {re.escape(what)}$"):
        validation.choose(found)


def test_the_error_counts_groups_where_they_stay_together():
    found = dataclasses.replace(examples(6, None), groups=np.zeros(6, np.uint64))
    with pytest.raises(SourceError, match=r"6 examples \(1 different groups, such as contexts\)$"):
        validation.choose(found)


def test_what_is_taken_keeps_its_order_labels_and_texts():
    found = dataclasses.replace(examples(5, np.arange(5)), texts={"text": list("abcde")})
    taken = validation.take(found, np.array([False, True, False, True, True]))
    assert rows_of(taken) == [rows_of(found)[place] for place in (1, 3, 4)]
    assert (taken.labels.tolist(), taken.texts, len(taken)) == ([1, 3, 4], {"text": list("bde")}, 3)


def test_each_class_is_in_all_folds_alike_whatever_the_order():
    labels = np.repeat([0, 1, 2], [203, 91, 12])
    found, order = examples(306, labels), RNG.permutation(306)
    parts = validation.folds(found, 5)
    for label, least in ((0, 40), (1, 18), (2, 2)):
        counts = np.bincount(parts[labels == label], minlength=5)
        assert counts.min() == least
        assert counts.max() <= least + 1
    assert np.ptp(np.bincount(parts)) <= 1
    assert np.array_equal(parts[order], validation.folds(reordered(found, order), 5))


def test_equal_texts_and_groups_are_in_one_fold():
    found = examples(60, RNG.integers(0, 2, 60))
    twice = dataclasses.replace(
        found,
        columns=(tf.concat([found.columns[0]] * 2, 0),),
        labels=np.concatenate([found.labels, 1 - found.labels]),
    )
    parts = validation.folds(twice, 3)
    assert np.array_equal(parts[:60], parts[60:])
    grouped = dataclasses.replace(found, groups=np.arange(60, dtype=np.uint64) // 10)
    parts = validation.folds(grouped, 3).reshape(6, 10)
    assert (parts == parts[:, :1]).all()
    assert set(parts[:, 0]) == {0, 1, 2}


def test_texts_that_are_alike_are_in_one_fold_and_the_others_where_they_were():
    found, alike = variants(50)
    alike[60:] = 0
    parts, before = validation.folds(found, 5, alike), validation.folds(found, 5)
    assert np.array_equal(parts[:10], parts[50:60])
    assert np.array_equal(parts[10:50], before[10:50])
    assert np.array_equal(parts[60:], before[60:])
    with pytest.raises(SourceError, match="at least two different"):
        validation.folds(found, 5, np.ones(100, np.uint64))


def test_few_texts_in_many_ways_of_writing_leave_no_fold_empty():
    alike = np.repeat(np.arange(1, 3, dtype=np.uint64), 10)
    for _ in range(20):
        found = examples(20, RNG.integers(0, 2, 20))
        assert sorted(set(zip(alike.tolist(), validation.folds(found, 5, alike), strict=True))) in (
            [(1, 0), (2, 1)],
            [(1, 1), (2, 0)],
        )


def test_one_text_alone_cannot_be_folded():
    found = Examples((tf.ragged.constant([[5, 6, 1]] * 3, tf.int32),), (9,), np.zeros(3, np.int64))
    with pytest.raises(SourceError, match=r"`data.source` must have at least two different .* Received: 3"):
        validation.folds(found, 5)
