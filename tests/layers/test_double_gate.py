"""The block of a convolution with `double_gate`: a linear gate on each side of it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels
from convnlp.layers import GLUConvBlock, build_mixer
from convnlp.testing import DIM, random_rows
from convnlp.testing.cases import BATCH, TIME
from tests.mixer_table import MIXER_TABLE
from tests.oracles.double_gate import double_gate

MIXERS = ("lightweight_conv", "dynamic_conv", "dilated_conv")
SEGMENTS = np.array([[1, 1, 1, 2, 2, 3, 0], [1, 2, 2, 2, 2, 0, 0]], "int32")
TOKENS = SEGMENTS > 0
mixers = pytest.mark.parametrize("name", MIXERS)
directions = pytest.mark.parametrize("causal", [False, True])


def block_of(name, causal=False, dtype="float32", **options):
    options = {"hidden_dim": DIM, "num_heads": 2, "kernel_size": 4, "double_gate": True, **options}
    keras.utils.set_random_seed(0)
    block = GLUConvBlock(build_mixer(name, causal=causal, dtype=dtype, **options), dtype=dtype)
    block.build((None, None, DIM))
    return block


@mixers
@directions
def test_values_are_the_oracles_in_every_form(name, causal):
    block, x, convolution = block_of(name, causal), random_rows(), MIXER_TABLE[name].oracle
    padded = np.broadcast_to(TOKENS[:, np.newaxis], [BATCH, TIME, TIME])
    same = SEGMENTS[:, np.newaxis] == SEGMENTS[:, :, np.newaxis]
    uses = [
        ({}, np.ones_like(padded), np.ones_like(TOKENS)),
        ({"padding_mask": tf.constant(TOKENS)}, padded, TOKENS),
        ({"segment_ids": tf.constant(SEGMENTS)}, padded & same, TOKENS),
    ]
    for masks, visible, tokens in uses:
        rows = zip(x.numpy().astype("float64"), visible, strict=True)
        expected = np.stack([double_gate(block, convolution, row, seen) for row, seen in rows])
        for form in ("fast", "plain", "inference", "edge"):
            with kernels.implementation(form):
                y = block(x, **masks)
            np.testing.assert_allclose(y[tokens], expected[tokens], atol=1e-5, err_msg=f"{form} {masks}")


@mixers
@pytest.mark.parametrize("chunk", [1, 3, TIME])
def test_steps_equal_one_call(name, chunk):
    block, x = block_of(name, causal=True), random_rows()
    state, outputs = block.init_state(BATCH, TIME), []
    for index in range(0, TIME, chunk):
        y, state = block.step(x[:, index : index + chunk], state, index)
        outputs.append(y)
    np.testing.assert_allclose(np.concatenate(outputs, 1), block(x), atol=1e-5)


@mixers
def test_cost_counts_four_projections(name):
    block, one_gate = block_of(name), block_of(name, double_gate=False)
    cost, before = block.cost(TIME), one_gate.cost(TIME)
    assert cost["parameters"] == block.count_params() == before["parameters"] + DIM**2
    assert one_gate.count_params() == before["parameters"]
    assert cost["multiply_adds"] == before["multiply_adds"] + TIME * DIM**2
    assert cost["state_elements"] == before["state_elements"]


@mixers
def test_bfloat16_is_near_float32(name):
    x = random_rows()
    expected = block_of(name)(x)
    y = block_of(name, dtype="mixed_bfloat16")(x)
    assert y.dtype == tf.bfloat16
    # 2^-8 for each rounding, up to eight of them.
    np.testing.assert_allclose(tf.cast(y, tf.float32), expected, atol=2**-5 * np.abs(expected).max())


@mixers
def test_a_config_keeps_it_and_one_of_before_has_none(name):
    mixer = build_mixer(name, hidden_dim=DIM, num_heads=2, double_gate=True)
    config = keras.saving.serialize_keras_object(GLUConvBlock(mixer))
    assert keras.saving.deserialize_keras_object(config).mixer.double_gate
    del config["config"]["mixer"]["config"]["double_gate"]
    assert not keras.saving.deserialize_keras_object(config).mixer.double_gate
