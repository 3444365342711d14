"""Examples in memory: rows of one and two texts, and the order of batches."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from convnlp.data import Shard, examples

RNG = np.random.default_rng(0)


def trimmed(segments, length):
    """Takes the last token of the longest segment, again and again; of the second where both are as long."""
    segments = [list(segment) for segment in segments]
    while sum(map(len, segments)) + len(segments) > length:
        max(reversed(segments), key=len).pop()
    return [token for segment in segments for token in [*segment, 1]]


@pytest.mark.parametrize("num_segments", [1, 2])
@pytest.mark.parametrize("length", [4, 7, 12])
def test_rows_cut_the_longest_text_first(num_segments, length):
    texts = [
        [RNG.integers(3, 99, RNG.integers(0, 16)).tolist() for _ in range(100)] for _ in range(num_segments)
    ]
    rows, count = examples.concatenate([tf.ragged.constant(text, tf.int32) for text in texts], length, 1)
    expected = [trimmed(segments, length) for segments in zip(*texts, strict=True)]
    assert rows.to_list() == expected
    is_cut = [sum(map(len, segments)) + num_segments > length for segments in zip(*texts, strict=True)]
    assert int(count) == sum(is_cut) > 0


def test_three_texts_are_refused():
    with pytest.raises(ValueError, match=r"`segments` must be one or two texts\. Received: 3"):
        examples.concatenate([tf.ragged.constant([[5]])] * 3, 9, 1)


def batches(*args, **kwargs):
    return [
        (indices.tolist(), weights.tolist())
        for indices, weights in examples.order(*args, **kwargs).as_numpy_iterator()
    ]


@pytest.mark.parametrize(("count", "batch_size"), [(1, 1), (1, 4), (7, 3), (100, 10), (1000, 32)])
def test_every_epoch_is_a_permutation(count, batch_size):
    order = batches(count, batch_size, training=True, num_epochs=4)
    assert len(order) == max(4 * count // batch_size, 1)
    indices = list(itertools.chain.from_iterable(indices for indices, _ in order))
    epochs = [indices[i * count : (i + 1) * count] for i in range(len(indices) // count)]
    assert all(sorted(epoch) == list(range(count)) for epoch in epochs)
    assert all(weights == [1.0] * batch_size for _, weights in order)
    if count >= 100:
        assert epochs[0] != epochs[1]
        assert epochs[0] != sorted(epochs[0])


def test_permutations_mix_well():
    # With sorted labels, the positive ones in a batch of 32 are hypergeometric: variance 8 * (1 - 31 / 6919).
    order = batches(6920, 32, training=True, num_epochs=10)
    positive = [sum(index >= 3460 for index in indices) for indices, _ in order]
    assert abs(np.mean(positive) - 16) < 0.3  # standard deviation of the mean of 2162 batches: 0.06
    assert abs(np.var(positive) - 8) < 1.3  # of the variance: 0.25


def test_the_seed_decides():
    one, same, other = (batches(50, 10, training=True, num_epochs=1, seed=seed) for seed in (1, 1, 2))
    assert one == same != other


def test_neighbours_are_parted_as_by_any_shuffle():
    """In a random order, two pairs of neighbours are still side by side, on average."""
    num_epochs = 100
    order = np.concatenate(
        [indices for indices, _ in batches(1000, 1000, training=True, num_epochs=num_epochs)]
    )
    kept = sum(np.sum(np.abs(np.diff(epoch)) == 1) for epoch in order.reshape(num_epochs, 1000))
    assert kept == pytest.approx(2 * num_epochs, abs=4 * np.sqrt(2 * num_epochs))


def test_evaluation_takes_every_example_once_in_order():
    order = batches(10, 4, training=False)
    assert [indices for indices, _ in order] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]
    assert [weights for _, weights in order] == [[1.0] * 4, [1.0] * 4, [1.0, 1.0, 0.0, 0.0]]


@pytest.mark.parametrize("training", [True, False])
def test_workers_share_the_global_batches(training):
    alone = batches(30, 8, training=training, num_epochs=3)
    workers = [batches(30, 4, training=training, num_epochs=3, shard=Shard(2, i)) for i in range(2)]
    assert [(a[0] + b[0], a[1] + b[1]) for a, b in zip(*workers, strict=True)] == alone


@pytest.mark.parametrize("arguments", [{"count": 0}, {"batch_size": 0}])
def test_nothing_to_take_is_refused(arguments):
    with pytest.raises(ValueError, match=f"`{next(iter(arguments))}` must be an integer >= 1"):
        examples.order(**({"count": 5, "batch_size": 2, "training": False} | arguments))


LENGTHS = np.random.default_rng(1).integers(1, 90, 700)


def grouped(group=3, batch_size=8, count=None, **kwargs):
    groups = examples.order_by_length(LENGTHS, batch_size, group, **{"training": True, **kwargs})
    return [indices for indices, _ in groups.take(count).as_numpy_iterator()]


def test_groups_hold_texts_of_about_the_same_length():
    spread = [np.ptp(LENGTHS[indices]) for indices in grouped(count=30)]
    assert np.mean(spread) < 0.3 * np.ptp(LENGTHS)
    rows = [LENGTHS[row] for indices in grouped(count=30) for row in indices]
    assert any(list(row) != sorted(row) for row in rows)  # in a group the order is random


@pytest.mark.parametrize(("batch_size", "num_groups"), [(8, 29), (1, 30), (40, 10)])
def test_about_an_epoch_is_sorted_together(batch_size, num_groups):
    """700 examples make 29 groups of 3 batches of 8, 233 of batches of 1, or 5 of batches of 40."""
    groups = grouped(count=2 * num_groups, batch_size=batch_size)
    plain = examples.order(700, num_groups * 3 * batch_size, training=True).as_numpy_iterator()
    for pool in (groups[:num_groups], groups[num_groups:]):
        assert sorted(np.ravel(pool)) == sorted(next(plain)[0])
        by_length = sorted((LENGTHS[indices].min(), LENGTHS[indices].max()) for indices in pool)
        assert all(longest <= shortest for (_, longest), (shortest, _) in itertools.pairwise(by_length))


def test_groups_follow_each_other_in_random_order():
    means = [LENGTHS[indices].mean() for indices in grouped(count=10)]
    assert means != sorted(means)
    first, same, other = (np.stack(grouped(count=10, seed=seed)) for seed in (1, 1, 2))
    assert (first == same).all()
    assert (first != other).any()


def test_each_pool_has_an_order_of_its_own():
    one, two = np.split(LENGTHS[np.stack(grouped(count=58, batch_size=8))].mean(axis=(1, 2)), 2)
    assert (np.argsort(one) != np.argsort(two)).any()


def test_what_is_in_a_pool_is_drawn_by_the_seed():
    """Of 700 examples, 30 groups of 3."""
    one, other = (np.stack(grouped(count=30, batch_size=1, seed=seed)) for seed in (1, 2))
    assert set(one.flat) != set(other.flat)


def test_workers_share_the_groups():
    alone = grouped(count=12)
    workers = [grouped(batch_size=4, count=12, shard=Shard(2, index)) for index in range(2)]
    for whole, *parts in zip(alone, *workers, strict=True):
        np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)


def test_evaluation_by_length_takes_every_example_once():
    groups = list(examples.order_by_length(LENGTHS, 32, 1, training=False).as_numpy_iterator())
    taken = [indices[weights > 0] for indices, weights in groups]
    assert sorted(np.concatenate(taken)) == list(range(700))
    assert [LENGTHS[i] for i in np.concatenate(taken)] == sorted(LENGTHS)


@pytest.mark.parametrize("training", [True, False])
def test_batches_of_a_group_are_as_long_as_their_longest_text(training):
    ids = tf.RaggedTensor.from_row_lengths(tf.range(1, 1 + LENGTHS.sum(), dtype=tf.int32), LENGTHS)
    found = examples.Examples((ids,), (90,), np.arange(700))
    lengths = []
    for batch in examples.labelled_batches(found, 8, training=training, group=2).batch(2).take(20):
        rows = tf.RaggedTensor.from_tensor(tf.reshape(batch["token_ids"], [16, -1]), padding=0)
        np.testing.assert_array_equal(
            rows.row_lengths(), tf.math.count_nonzero(batch["padding_mask"], -1).numpy().ravel()
        )
        expected = ids.to_list()
        assert rows.to_list() == [expected[label] for label in batch["label"].numpy().ravel()]
        lengths.append(batch["token_ids"].shape[2])
        assert lengths[-1] == min(-(-max(map(len, rows.to_list())) // 16) * 16, 90)
    assert len(set(lengths)) > 2


def test_a_group_of_none_is_refused():
    with pytest.raises(ValueError, match=r"`group` must be an integer >= 1\. Received: group=0"):
        examples.order_by_length(LENGTHS, 8, 0, training=True)


def test_a_restored_iterator_goes_on_with_the_same_groups(tmp_path):
    ids = tf.RaggedTensor.from_row_lengths(tf.range(1, 1 + LENGTHS.sum(), dtype=tf.int32), LENGTHS)
    found = examples.Examples((ids,), (90,), np.arange(700))

    def batches():
        return iter(examples.labelled_batches(found, 8, training=True, group=3).batch(3))

    iterator = batches()
    for _ in range(13):  # into the second pool
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    again = batches()
    tf.train.Checkpoint(iterator=again).read(path).assert_consumed()
    for _ in range(12):
        np.testing.assert_array_equal(next(again)["token_ids"], next(iterator)["token_ids"])


def test_some_of_the_examples_keep_all_that_is_theirs():
    number = np.arange(4)
    fields = {
        "labels": number,
        "soft_labels": np.stack([number, 1 - number], 1).astype("float32"),
        "weights": number.astype("float32"),
        "groups": number.astype("uint64"),
        "places": number + 10,
    }
    found = examples.Examples((tf.ragged.constant([[i] for i in range(4)]),), (8,), **fields)
    few = found.take(np.array([3, 1]))
    for name, values in fields.items():
        np.testing.assert_array_equal(getattr(few, name), values[[3, 1]])


def test_what_fills_up_an_evaluation_has_no_weight():
    rows = tf.ragged.constant([[5], [6], [7]], dtype=tf.int32)
    weights = np.array([2, 3, 4], "float32")
    found = examples.Examples((rows,), (8,), labels=np.arange(3), weights=weights)
    batches = examples.labelled_batches(found, 2, training=False).as_numpy_iterator()
    assert [batch["weight"].tolist() for batch in batches] == [[2, 3], [4, 0]]
