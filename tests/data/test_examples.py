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
