"""Numbers looked up by offset: the definition in a NumPy loop, and equal forms."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels

NUM_SLOTS = 9


def slot_of(offset):
    return tf.clip_by_value(offset + 4, 0, NUM_SLOTS - 1)


def table():
    return tf.constant(np.random.default_rng(0).normal(size=[2, NUM_SLOTS]).astype("float32"))


def values_and_gradient(form, queries, keys):
    numbers = table()
    with kernels.implementation(form), tf.GradientTape() as tape:
        tape.watch(numbers)
        y = kernels.look_up_offsets(numbers, slot_of, queries, keys)
    upstream = tf.constant(np.random.default_rng(1).normal(size=y.shape).astype("float32"))
    return y.numpy(), tf.convert_to_tensor(tape.gradient(y, numbers, upstream)).numpy(), upstream.numpy()


@pytest.mark.parametrize("form", ["fast", "plain", "inference", "edge"])
@pytest.mark.parametrize(
    ("queries", "keys"),
    [
        (tf.range(5), tf.range(5)),
        (tf.range(1), tf.range(6)),
        (tf.range(7, 10), tf.range(10)),  # a chunk in a cache
        (tf.range(4), tf.range(1)),
        (3 * tf.range(5), 3 * tf.range(-2, 6)),  # a dilated window
        (tf.range(300), tf.range(290)),  # compiled
    ],
    ids=lambda positions: f"{positions[0]}-{positions[-1]}",
)
def test_each_pair_is_looked_up(form, queries, keys):
    y, gradient, upstream = values_and_gradient(form, queries, keys)
    numbers, expected, expected_gradient = table().numpy(), np.zeros_like(y), np.zeros([2, NUM_SLOTS])
    queries, keys = queries.numpy().tolist(), keys.numpy().tolist()
    for q, k in np.ndindex(y.shape[1:]):
        slot = min(max(keys[k] - queries[q] + 4, 0), NUM_SLOTS - 1)
        expected[:, q, k] = numbers[:, slot]
        expected_gradient[:, slot] += upstream[:, q, k]
    np.testing.assert_array_equal(y, expected)
    # Sums of up to 87,000 numbers of size one, in float32 and in another order.
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-4, atol=1e-3)


def test_unknown_sizes_are_served():
    positions = tf.TensorSpec([None], tf.int32)

    @tf.function(input_signature=[positions, positions])
    def look_up(queries, keys):
        with kernels.implementation("fast"):
            return kernels.look_up_offsets(table(), slot_of, queries, keys)

    for queries, keys in ((tf.range(3), tf.range(4)), (tf.range(2, 3), tf.range(5))):
        with kernels.implementation("plain"):
            expected = kernels.look_up_offsets(table(), slot_of, queries, keys)
        np.testing.assert_array_equal(look_up(queries, keys), expected)
