"""The prefix language model in a stack, and where it is refused; `convnlp.testing.prefix` has one layer."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp.layers import MIXERS, Encoder, TokenMixer
from convnlp.testing import DIM, random_rows
from convnlp.testing.cases import TIME
from convnlp.testing.contract import influence
from convnlp.testing.prefix import allowed
from tests.mixer_table import MIXER_TABLE

PREFIX = np.arange(TIME) < np.array([[4], [0]])


@pytest.mark.parametrize("masked", [True, False])
def test_nothing_leaks_through_a_stack(masked):
    """Without the mask the same stack leaks, so that the test would show it."""
    mixers = [
        {"name": "lightweight_conv", "hidden_dim": DIM, "num_heads": 2, "kernel_size": 5},
        {"name": "self_attention", "hidden_dim": DIM, "num_heads": 2},
        {"name": "dynamic_conv", "hidden_dim": DIM, "num_heads": 2, "kernel_size": 4, "dilation_rate": 2},
    ]
    encoder, prefix = Encoder(mixers, intermediate_dim=12), np.arange(TIME) < 4
    mask = tf.constant(np.tile(prefix, [TIME, 1])) if masked else None
    depends = influence(lambda x: encoder(x, prefix_mask=mask), TIME)
    expected = allowed(prefix) if masked else np.ones([TIME, TIME], bool)
    np.testing.assert_array_equal(depends, expected)


@pytest.mark.parametrize("cls", [cls for cls in MIXERS.values() if not cls.supports_prefix])
def test_a_prefix_needs_supports_prefix(cls):
    mixer = cls(hidden_dim=DIM, **MIXER_TABLE[cls.name].variants[0])
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
