"""Focal attention over rows of several blocks, which the rows of the table are too short for."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp.layers import FocalAttention
from convnlp.testing import DIM, random_rows
from tests.oracles import attention

TIME = 110  # four blocks of 32 single positions, two of every third, the last ones short
TEXTS = [1] * 50 + [2] * 5 + [3] * 51
SEGMENTS = np.array([TEXTS + [0] * (TIME - len(TEXTS))], "int32")
OPTIONS = [
    {"window_size": 5, "pool_sizes": (3, 7), "num_windows": 4},
    {"window_size": 40, "pool_sizes": (2,), "num_windows": 9},
    {"window_size": 1, "pool_sizes": (4,), "num_windows": 1},
]


def build(**options):
    keras.utils.set_random_seed(0)
    mixer = FocalAttention(hidden_dim=DIM, num_heads=2, **options)
    mixer.build((None, None, DIM))
    rng = np.random.default_rng(0)
    mixer.set_weights([value + 0.2 * rng.normal(size=value.shape) for value in mixer.get_weights()])
    return mixer


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_values_across_blocks(options, causal):
    mixer, x = build(causal=causal, **options), random_rows(batch=1, time=TIME)
    tokens = SEGMENTS[0] > 0
    visible = tokens & (SEGMENTS[0] == SEGMENTS[0][:, np.newaxis])
    expected = attention.focal_attention(mixer, x[0].numpy().astype("float64"), visible)
    # Float32 sums of at most a few dozen terms of size one, against float64.
    np.testing.assert_allclose(
        mixer(x, segment_ids=tf.constant(SEGMENTS))[0][tokens], expected[tokens], atol=1e-5
    )


def test_steps_across_blocks():
    mixer, x = build(causal=True, **OPTIONS[0]), random_rows(time=TIME)
    state, outputs = mixer.init_state(2, TIME), []
    for index in range(0, TIME, 10):
        y, state = mixer.step(x[:, index : index + 10], state, tf.constant(index))
        outputs.append(y)
    # The same float32 sums in another order.
    np.testing.assert_allclose(np.concatenate(outputs, 1), mixer(x), atol=1e-5)


def test_windows_start_as_means():
    """Where all positions are equal, so are their keys and the sums of whole windows, at every scale."""
    mixer = FocalAttention(hidden_dim=DIM, num_heads=2, num_windows=1)
    x = tf.ones([1, 40, DIM])
    y = mixer(x)[:, 20]
    np.testing.assert_allclose(y, mixer.output_projection(mixer.value(x))[:, 20], atol=1e-6)


def test_cost_grows_with_the_length_and_not_with_its_square():
    mixer = build()
    costs = [mixer.cost(length)["multiply_adds"] for length in (512, 1024, 2048)]
    assert costs[1] - costs[0] == costs[0]
    assert costs[2] == 4 * costs[0]


def test_one_size_is_a_list_of_one():
    assert FocalAttention(hidden_dim=DIM, num_heads=2, pool_sizes=4).pool_sizes == [4]
