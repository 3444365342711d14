"""With what attention begins, by distance."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp.layers import RelativePositionBias, SelfAttention


@pytest.mark.parametrize("bidirectional", [True, False], ids=["both sides", "one side"])
def test_alibi(bidirectional):
    """Exact where buckets are; further away at most the distance, and never falling behind a nearer one."""
    heads, time = 4, 90
    bias = RelativePositionBias(heads, bidirectional, initializer="alibi")
    found = bias(tf.range(time), tf.range(time)).numpy()
    exact = 8 if bidirectional else 16  # half of the buckets of a side
    for head in range(heads):
        slope = 2.0 ** (-8.0 * (head + 1) / heads)
        for query in range(time):
            for key in range(query + 1 if not bidirectional else time):
                distance = abs(key - query)
                if distance < exact:
                    assert found[head, query, key] == -np.float32(slope * distance)
                else:
                    assert -slope * distance <= found[head, query, key] <= -slope * exact
            assert np.all(np.diff(found[head, query, : query + 1]) >= 0)


def test_normal_is_the_default():
    bias = RelativePositionBias(8, bidirectional=True)
    bias.build()
    assert 0 < np.std(bias.table) < 0.03


def test_the_mixer_keeps_it():
    mixer = SelfAttention.from_config(SelfAttention(8, num_heads=2, bias_initializer="alibi").get_config())
    mixer.build((None, None, 8))
    assert mixer.bias.table[0, 3] == -3 * 2.0**-4


def test_another_name():
    with pytest.raises(ValueError, match="`bias_initializer` must be one of normal, alibi"):
        SelfAttention(8, num_heads=2, bias_initializer="local")
