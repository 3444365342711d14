"""The bias by distance: how it begins, and that it is the same looked up or, as on a TPU, multiplied out."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels
from convnlp.layers import RelativePositionBias, SelfAttention


@pytest.fixture(params=[True, False], ids=["bidirectional", "causal"])
def bias(request):
    layer = RelativePositionBias(num_heads=3, bidirectional=request.param)
    layer.build()
    layer.table.assign(np.random.default_rng(0).normal(size=layer.table.shape))
    return layer


def test_both_forms_are_the_same(bias):
    queries, keys = tf.range(150, 160), tf.range(300)  # beyond the farthest bucket on both sides
    weights = np.random.default_rng(1).normal(size=[3, 10, 300]).astype("float32")
    found = {}
    for form in ("fast", "plain"):
        with kernels.implementation(form), tf.GradientTape() as tape:
            y = bias(queries, keys)
            total = tf.reduce_sum(y * weights)
        found[form] = y, tf.convert_to_tensor(tape.gradient(total, bias.table.value))
    np.testing.assert_array_equal(found["plain"][0], found["fast"][0])
    # Sums of up to 3,000 terms of size one in another order, in float32.
    np.testing.assert_allclose(found["plain"][1], found["fast"][1], rtol=1e-4, atol=1e-3)


def test_a_tpu_looks_nothing_up(bias):
    @tf.function(autograph=False, jit_compile=True)
    def gradient(weights):
        with kernels.implementation("plain"), tf.GradientTape() as tape:
            total = tf.reduce_sum(bias(tf.range(64), tf.range(64)) * weights)
        return tape.gradient(total, bias.table.value)

    program = gradient.experimental_get_compiler_ir(tf.TensorSpec([3, 64, 64]))(stage="hlo")
    assert " dot(" in program
    assert " gather(" not in program
    assert " scatter(" not in program


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
