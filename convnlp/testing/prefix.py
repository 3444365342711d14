"""UniLM's language models in one layer: what each position may see, and the values."""

import numpy as np
import tensorflow as tf

from convnlp import kernels
from convnlp.testing.cases import BATCH, TIME, random_rows
from convnlp.testing.contract import REORDERED, influence
from convnlp.testing.requirements import require
from convnlp.testing.values import TOLERANCE


def allowed(prefix):
    """Returns UniLM's relation: position i may see m if c[m] <= c[i], c the running number of targets.

    Args:
        prefix: bool array [T].

    Returns:
        Bool array [T,T].
    """
    count = np.cumsum(~prefix)
    return count <= count[:, np.newaxis]


def targets_see_the_past_and_the_prefix_sees_itself(case):
    """By gradient, of all that an output depends on, exactly what the relation allows remains."""
    mixer, prefix = case.build(), np.arange(20) < 11
    everything = influence(mixer, 20)
    require(everything[:11, 11:].any(), "without a mask, the source must look at targets: what has to go")
    masks = tf.constant(np.tile(prefix, [20, 1]))
    left = influence(lambda x: mixer(x, prefix_mask=masks), 20)
    np.testing.assert_array_equal(left, everything & allowed(prefix))


def values_with_a_prefix_are_the_oracles(case):
    """Checks rows with pads, one of them without a prefix."""
    mixer, x = case.build(), random_rows()
    prefix = np.arange(TIME) < np.array([[4], [0]])
    tokens = np.arange(TIME) < np.array([[TIME - 1], [TIME - 2]])
    y = mixer(x, padding_mask=tf.constant(tokens), prefix_mask=tf.constant(prefix))
    for row in range(BATCH):
        visible = np.broadcast_to(tokens[row], [TIME, TIME])
        expected = case.oracle(mixer, x[row].numpy().astype("float64"), visible, prefix[row])
        np.testing.assert_allclose(y[row][tokens[row]], expected[tokens[row]], atol=TOLERANCE)


def pads_in_front_of_a_prefix_do_not_matter(case):
    """A model without an encoder moves the source's pads to the front of the row."""
    mixer, x, rest = case.build(), random_rows().numpy(), [[0, 0], [4, 0]]
    prefix = np.arange(TIME) < np.array([[3], [5]])
    padded = np.pad(x, [*rest, [0, 0]], constant_values=1e3)
    masks = {
        "padding_mask": tf.constant(np.pad(np.ones([BATCH, TIME], bool), rest)),
        "prefix_mask": tf.constant(np.pad(prefix, rest)),
    }
    with kernels.implementation("plain"):
        expected = mixer(x, prefix_mask=tf.constant(prefix))
        np.testing.assert_allclose(mixer(padded, **masks)[:, 4:], expected, atol=REORDERED)


def packed_prefixes_equal_separate(case):
    """Each text of a row has a prefix of its own, whatever follows."""
    mixer, x = case.build(), random_rows(batch=1, time=12).numpy()
    prefix = np.array([[True, True, False, False, False, True, True, True, True, False, True, True]])
    segments = np.array([[1] * 5 + [2] * 5 + [0] * 2], "int32")
    packed = mixer(x, segment_ids=tf.constant(segments), prefix_mask=tf.constant(prefix))[0]
    for part in (slice(0, 5), slice(5, 10)):
        with kernels.implementation("plain"):  # others would be compiled for this length
            alone = mixer(x[:, part], prefix_mask=tf.constant(prefix[:, part]))[0]
        np.testing.assert_allclose(packed[part], alone, atol=REORDERED)


def right_to_left_sees_what_follows(case):
    """By gradient, of all that an output depends on, exactly itself and what follows remains."""
    mixer, later = case.build(), np.tri(20, dtype=bool).T
    everything = influence(mixer, 20)
    require((everything & ~later).any(), "without a direction, outputs must look back: what has to go")
    left = influence(lambda x: mixer(x, right_to_left=True), 20)
    np.testing.assert_array_equal(left, everything & later)


def values_from_right_to_left_are_the_oracles(case):
    """Checks rows with pads."""
    mixer, x = case.build(), random_rows()
    tokens = np.arange(TIME) < np.array([[TIME - 1], [TIME - 2]])
    y = mixer(x, padding_mask=tf.constant(tokens), right_to_left=True)
    for row in range(BATCH):
        visible = np.broadcast_to(tokens[row], [TIME, TIME])
        expected = case.oracle(mixer, x[row].numpy().astype("float64"), visible, right_to_left=True)
        np.testing.assert_allclose(y[row][tokens[row]], expected[tokens[row]], atol=TOLERANCE)


def packed_texts_from_right_to_left_equal_separate(case):
    """Read from right to left, each packed text begins at its own end."""
    mixer, x = case.build(), random_rows(batch=1, time=12).numpy()
    segments = np.array([[1] * 5 + [2] * 5 + [0] * 2], "int32")
    packed = mixer(x, segment_ids=tf.constant(segments), right_to_left=True)[0]
    for part in (slice(0, 5), slice(5, 10)):
        with kernels.implementation("plain"):  # others would be compiled for this length
            alone = mixer(x[:, part], right_to_left=True)[0]
        np.testing.assert_allclose(packed[part], alone, atol=REORDERED)
