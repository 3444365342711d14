"""Rows in groups of about one length give what they give in one batch."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp.tasks.length_groups import in_groups

LENGTHS = (9, 1, 40, 0, 9, 17, 3)
SHAPES = []  # of the groups, as they run


def function(rows):
    """Which tokens stand in a row, and in a text; it notes how long the rows are."""
    shape = tf.shape(rows["token_ids"])
    tf.py_function(lambda shape: SHAPES.append(tuple(shape.numpy())), [shape], [])
    kept = tf.where(rows["padding_mask"], rows["token_ids"], 0)
    total = tf.reduce_sum(kept, axis=1)
    return {"sums": tf.stack([total, -total], axis=1), "names": tf.strings.as_string(total)}


@pytest.mark.parametrize("num_rows", range(len(LENGTHS) + 1))
def test_rows_keep_their_order_and_groups_are_short(num_rows):
    lengths = np.array(LENGTHS[:num_rows], int)
    width = int(lengths.max(initial=2))
    mask = np.arange(width) < lengths[:, None]
    ids = np.arange(1, 1 + num_rows * width).reshape(num_rows, width) * mask
    SHAPES.clear()

    @tf.function(autograph=False)
    def grouped(ids, mask):
        return in_groups(function, {"token_ids": ids, "padding_mask": mask}, group_size=3, round_to=4)

    found = grouped(tf.constant(ids, tf.int32), tf.constant(mask))
    np.testing.assert_array_equal(found["sums"], np.stack([ids.sum(1), -ids.sum(1)], 1))
    assert found["names"].numpy().tolist() == [str(total).encode() for total in ids.sum(1)]
    order = sorted(lengths.tolist())
    groups = [order[start : start + 3] for start in range(0, max(num_rows, 1), 3)]
    expected = [(len(group), min(max(4, -(-max(group, default=1) // 4) * 4), width)) for group in groups]
    assert sorted(SHAPES) == sorted(expected)


def test_pads_inside_of_a_row_count():
    ids = tf.constant([[5, 0, 0, 0, 0, 7], [1, 0, 0, 0, 0, 0]])
    found = in_groups(function, {"token_ids": ids, "padding_mask": ids != 0}, group_size=1, round_to=1)
    np.testing.assert_array_equal(found["sums"], [[12, -12], [1, -1]])
