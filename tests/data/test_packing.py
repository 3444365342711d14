"""Packed rows hold every example once, whole, with the same segment number in all columns."""

import numpy as np
import tensorflow as tf

from convnlp.data import packing


def test_first_fit():
    sizes = np.array([[3, 2], [2, 2], [1, 4], [2, 1], [4, 4]])
    row, segment, offset = packing.first_fit(sizes, np.array([5, 5]))
    assert row.tolist() == [0, 0, 1, 1, 2]
    assert segment.tolist() == [1, 2, 1, 2, 1]
    assert offset.tolist() == [[0, 0], [3, 2], [0, 0], [1, 4], [0, 0]]


def unpacked(rows, name):
    """The examples of a column, keyed by (row, segment)."""
    ids, segments = rows[name].token_ids.numpy(), rows[name].segment_ids.numpy()
    np.testing.assert_array_equal(ids[segments == 0], 0)
    return {
        (row, segment): ids[row][segments[row] == segment].tolist()
        for row in range(len(ids))
        for segment in range(1, segments[row].max() + 1)
    }


def test_no_example_is_lost_or_changed():
    rng = np.random.default_rng(0)
    pairs = [
        (rng.integers(1, 99, rng.integers(1, 9)).tolist(), rng.integers(1, 99, rng.integers(1, 7)).tolist())
        for _ in range(64)
    ]
    batches = [pairs[i : i + 4] for i in range(0, 64, 4)]
    dataset = tf.data.Dataset.from_generator(
        lambda: (
            {"a": tf.ragged.constant([a for a, _ in batch]), "b": tf.ragged.constant([b for _, b in batch])}
            for batch in batches
        ),
        output_signature={name: tf.RaggedTensorSpec([4, None], tf.int32) for name in "ab"},
    )
    packed = packing.pack(dataset, {"a": 12, "b": 10}, batch_size=1)
    assert packed.element_spec["a"].token_ids.shape.as_list() == [1, 12]
    assert packed.element_spec["b"].segment_ids.shape.as_list() == [1, 10]
    found, num_rows = [], 0
    for rows in packed:
        first, second = unpacked(rows, "a"), unpacked(rows, "b")
        assert first.keys() == second.keys()
        found += [(first[key], second[key]) for key in first]
        num_rows += 1
    assert sorted(found) == sorted(pairs)
    assert num_rows < 45
