"""Windowed attention over rows of several blocks, which the rows of the table are too short for."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp.layers import LocalAttention
from convnlp.testing import DIM, random_rows
from tests.oracles import attention

TIME = 70  # three blocks of 32, the last one short
SEGMENTS = np.repeat([1, 2, 3, 0], [30, 5, 31, 4])[np.newaxis].astype("int32")


def build(**options):
    keras.utils.set_random_seed(0)
    mixer = LocalAttention(hidden_dim=DIM, num_heads=2, **options)
    mixer.build((None, None, DIM))
    return mixer


@pytest.mark.parametrize(
    "options",
    [
        {"window_size": 5},
        {"window_size": 4, "causal": True},
        {"window_size": 40, "causal": True},
        {"window_size": 6, "dilation_rate": 3},
    ],
    ids=str,
)
def test_values_across_blocks(options):
    mixer, x = build(**options), random_rows(batch=1, time=TIME)
    visible = (SEGMENTS[0] > 0) & (SEGMENTS[0] == SEGMENTS[0][:, np.newaxis])
    expected = attention.local_attention(mixer, x[0].numpy().astype("float64"), visible)
    tokens = SEGMENTS[0] > 0
    # Float32 sums of at most a few dozen terms of size one, against float64.
    np.testing.assert_allclose(
        mixer(x, segment_ids=tf.constant(SEGMENTS))[0][tokens], expected[tokens], atol=1e-5
    )


def test_steps_across_blocks():
    mixer, x = build(window_size=9, dilation_rate=2, causal=True), random_rows(time=TIME)
    state, outputs = mixer.init_state(2, TIME), []
    for index in range(0, TIME, 10):
        y, state = mixer.step(x[:, index : index + 10], state, tf.constant(index))
        outputs.append(y)
    # The same float32 sums in another order.
    np.testing.assert_allclose(np.concatenate(outputs, 1), mixer(x), atol=1e-5)


def test_cost_grows_with_the_length_and_not_with_its_square():
    mixer = build(window_size=64)
    costs = [mixer.cost(length)["multiply_adds"] for length in (512, 1024, 2048)]
    assert costs[1] - costs[0] == costs[0]
    assert costs[2] == 4 * costs[0]


def test_bad_window_size_is_named():
    with pytest.raises(ValueError, match=r"`window_size` must .*Received: window_size=0"):
        build(window_size=0)
