"""The prefix language model: what a position may see, with which values, in one layer and in a stack."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp.layers import MIXERS, Encoder, TokenMixer
from convnlp.testing import DIM, random_rows
from convnlp.testing.cases import BATCH, TIME
from convnlp.testing.contract import REORDERED, influence
from convnlp.testing.values import TOLERANCE
from tests.mixer_table import CASES, MIXER_TABLE

SUPPORTING = [case for case in CASES if case.facts.supports_prefix and not case.causal]
cases = pytest.mark.parametrize("case", SUPPORTING, ids=str)
typical_cases = pytest.mark.parametrize("case", [case for case in SUPPORTING if case.typical], ids=str)
PREFIX_LENGTHS = np.array([[4], [0]])
PREFIX = np.arange(TIME) < PREFIX_LENGTHS


def allowed(prefix):
    """UniLM's relation: position i may see m if c[m] <= c[i], c the running number of the targets so far."""
    count = np.cumsum(~prefix)
    return count <= count[:, np.newaxis]


@typical_cases
def test_targets_see_the_past_and_the_prefix_sees_itself(case):
    """By gradient: of all that an output depends on, exactly what the relation allows is left."""
    mixer, prefix = case.build(), np.arange(20) < 11

    def masked(x):
        return mixer(x, prefix_mask=tf.constant(prefix[np.newaxis]))

    everything = influence(mixer, 20)
    assert everything[:11, 11:].any()  # a source that looks at targets: what has to go
    np.testing.assert_array_equal(influence(masked, 20), everything & allowed(prefix))


@cases
def test_values(case):
    mixer, x = case.build(), random_rows()
    tokens = np.arange(TIME) < np.array([[TIME - 1], [TIME - 2]])
    y = mixer(x, padding_mask=tf.constant(tokens), prefix_mask=tf.constant(PREFIX))
    for row in range(BATCH):
        visible = np.broadcast_to(tokens[row], [TIME, TIME])
        expected = case.oracle(mixer, x[row].numpy().astype("float64"), visible, PREFIX[row])
        np.testing.assert_allclose(y[row][tokens[row]], expected[tokens[row]], atol=TOLERANCE)


@cases
def test_packed_equals_separate_whatever_comes_behind(case):
    mixer, x = case.build(), random_rows(batch=1, time=12).numpy()
    prefix = np.array([[True, True, False, False, False, True, True, True, True, False, True, True]])
    segments = np.array([[1] * 5 + [2] * 5 + [0] * 2], "int32")
    packed = mixer(x, segment_ids=tf.constant(segments), prefix_mask=tf.constant(prefix))[0]
    for part in (slice(0, 5), slice(5, 10)):
        alone = mixer(x[:, part], prefix_mask=tf.constant(prefix[:, part]))[0]
        np.testing.assert_allclose(packed[part], alone, atol=REORDERED)


@pytest.mark.parametrize("masked", [True, False])
def test_nothing_leaks_through_a_stack(masked):
    """Without the mask the same stack leaks, so that the test would show it."""
    mixers = [
        {"name": "lightweight_conv", "hidden_dim": DIM, "num_heads": 2, "kernel_size": 5},
        {"name": "self_attention", "hidden_dim": DIM, "num_heads": 2},
        {"name": "dynamic_conv", "hidden_dim": DIM, "num_heads": 2, "kernel_size": 4, "dilation_rate": 2},
    ]
    encoder, prefix = Encoder(mixers, intermediate_dim=12), np.arange(TIME) < 4
    mask = tf.constant(prefix[np.newaxis]) if masked else None
    depends = influence(lambda x: encoder(x, prefix_mask=mask), TIME)
    expected = allowed(prefix) if masked else np.ones([TIME, TIME], bool)
    np.testing.assert_array_equal(depends, expected)


@pytest.mark.parametrize("cls", [cls for cls in MIXERS.values() if not cls.supports_prefix])
def test_a_prefix_needs_supports_prefix(cls):
    name = next(name for name in MIXERS if MIXERS[name] is cls)
    mixer = cls(hidden_dim=DIM, **MIXER_TABLE[name].variants[0])
    with pytest.raises(
        ValueError, match=rf"`prefix_mask` must be None for this {cls.__name__}: it would leak"
    ):
        mixer(random_rows(), prefix_mask=tf.constant(PREFIX))


def test_a_prefix_needs_a_mixer_that_looks_ahead():
    mixer = MIXERS["dynamic_conv"](hidden_dim=DIM, num_heads=2, causal=True)
    with pytest.raises(ValueError, match=r"`prefix_mask` must be None.*hides the prefix too.*causal=True"):
        mixer(random_rows(), prefix_mask=tf.constant(PREFIX))
    assert not TokenMixer.supports_prefix


def test_merged_positions_and_a_prefix_exclude_each_other():
    mixers = [{"name": "dynamic_conv", "hidden_dim": DIM, "num_heads": 2}]
    encoder = Encoder(mixers, intermediate_dim=12, pool_sizes=[2])
    with pytest.raises(ValueError, match=r"`prefix_mask` must be None: pool_sizes=\[2\]"):
        encoder(random_rows(), prefix_mask=tf.constant(PREFIX))
