"""Linear attention: rows of several blocks, which the mixers' suites are too short for, pair by pair."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import counting
from convnlp import kernels
from convnlp.kernels.taylor_attention import BLOCK, taylor_features
from tests.tflite import converted, run

BATCH, HEADS, KEY_DIM, VALUE_DIM = 2, 2, 3, 4
TIME = 2 * BLOCK + 44  # three blocks, the last one short
# In one row a text begins in each of the blocks, in the other one text fills the second and more.
SEGMENTS = np.stack(
    [
        np.repeat([1, 2, 3, 4, 5, 0], [30, 110, 5, 120, 25, 10]),
        np.repeat([1, 2, 3, 0], [BLOCK - 1, BLOCK + 20, 20, 5]),
    ]
).astype("int32")
PREFIX = np.stack([np.arange(TIME) % 145 < 60, np.arange(TIME) < BLOCK + 9])
PREFIX_OF_ONE = np.arange(TIME) < np.array([[BLOCK + 30], [7]])


def random_inputs(time=TIME):
    rng = np.random.default_rng(0)
    dims = (KEY_DIM, KEY_DIM, VALUE_DIM)
    return [rng.normal(size=[BATCH, time, HEADS, dim]).astype("float32") for dim in dims]


def visible(padding_mask=None, segment_ids=None, prefix_mask=None, causal=False, time=TIME):
    """Bool [B,T,T]: which key each query may see."""
    seen = np.ones([BATCH, time, time], bool)
    if causal:
        seen &= np.tri(time, dtype=bool)
    if prefix_mask is not None:
        seen &= np.tri(time, dtype=bool) | prefix_mask[:, np.newaxis]
    if segment_ids is not None:
        seen &= segment_ids[:, np.newaxis] == segment_ids[:, :, np.newaxis]
    if padding_mask is not None:
        seen &= padding_mask[:, np.newaxis]
    return seen


def pair_by_pair(queries, keys, values, seen):
    """The equation in float64, of tensors."""
    queries, keys, values = (tf.cast(x, tf.float64) for x in (queries, keys, values))
    s = tf.einsum("bihd,bjhd->bhij", queries, keys)
    weights = (1 + s + s**2 / 2) * seen[:, np.newaxis].astype("float64")
    weights /= tf.reduce_sum(weights, axis=-1, keepdims=True)
    return tf.einsum("bhij,bjhe->bihe", weights, values)


def values_and_gradients(function, tokens):
    """Outputs at tokens, and the gradients of the sum of their squares, as float64."""
    inputs = [tf.constant(x) for x in random_inputs()]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        y = tf.boolean_mask(tf.cast(function(*inputs), tf.float64), tokens)
        loss = tf.reduce_sum(y**2)
    return [np.asarray(value, "float64") for value in (y, *tape.gradient(loss, inputs))]


MASKS = [
    {},
    {"causal": True},
    {"segment_ids": SEGMENTS},
    {"segment_ids": SEGMENTS, "causal": True},
    {"prefix_mask": PREFIX_OF_ONE},
    {"segment_ids": SEGMENTS, "prefix_mask": PREFIX},
]


@pytest.mark.parametrize("masks", MASKS, ids=lambda masks: "-".join(masks) or "none")
def test_values_and_gradients_across_blocks(masks):
    tokens = SEGMENTS > 0
    masks = {**masks, "padding_mask": tokens}
    found = values_and_gradients(lambda *inputs: kernels.taylor_attention(*inputs, **masks), tokens)
    seen = visible(**masks) | np.eye(TIME, dtype=bool)  # a pad sees itself, so that nothing is 0 / 0
    expected = values_and_gradients(lambda *inputs: pair_by_pair(*inputs, seen), tokens)
    for value, reference in zip(found, expected, strict=True):
        # Float32 sums of at most 300 terms of size one.
        np.testing.assert_allclose(value, reference, atol=1e-5 * max(1, np.abs(reference).max()))


@pytest.mark.parametrize("masks", MASKS, ids=lambda masks: "-".join(masks) or "none")
def test_a_graph_that_does_not_know_the_length_takes_any(masks):
    names = [name for name in masks if name != "causal"]
    specs = [tf.TensorSpec([None, None, HEADS, dim]) for dim in (KEY_DIM, KEY_DIM, VALUE_DIM)]
    specs += [tf.TensorSpec([None, None], tf.int32 if name == "segment_ids" else tf.bool) for name in names]

    @tf.function(input_signature=specs)
    def in_a_graph(queries, keys, values, *given):
        given = dict(zip(names, given, strict=True))
        return kernels.taylor_attention(queries, keys, values, **given, causal=masks.get("causal", False))

    for time in (5, BLOCK, TIME):
        cut = {name: masks[name][:, :time] for name in names}
        inputs = random_inputs(time)
        seen = visible(**cut, causal=masks.get("causal", False), time=time)
        np.testing.assert_allclose(in_a_graph(*inputs, *cut.values()), pair_by_pair(*inputs, seen), atol=1e-5)


def test_what_is_hidden_leaves_no_trace_however_large():
    """Not one bit of an output changes, whichever blocks the text lies in."""
    inputs = random_inputs()
    for masks, text in itertools.product(MASKS[2:4], range(1, 6)):
        own = text == SEGMENTS
        other = [np.where(own[..., np.newaxis, np.newaxis], x, 1e4 * x) for x in inputs]
        expected, y = kernels.taylor_attention(*inputs, **masks), kernels.taylor_attention(*other, **masks)
        np.testing.assert_array_equal(y.numpy()[own], expected.numpy()[own])


def test_steps_equal_one_call():
    queries, keys, values = random_inputs()
    expected = kernels.taylor_attention(queries, keys, values, causal=True)
    memory = tf.zeros([BATCH, *kernels.taylor_memory_shape(HEADS, KEY_DIM, VALUE_DIM)])
    outputs = []
    for start in range(0, TIME, 50):
        chunk = (x[:, start : start + 50] for x in (queries, keys, values))
        y, memory = kernels.taylor_attention_step(*chunk, memory)
        outputs.append(y)
    # The same float32 sums in another order.
    np.testing.assert_allclose(np.concatenate(outputs, 1), expected, atol=1e-5)


def test_features_multiply_to_the_series():
    u = np.random.default_rng(0).normal(size=[2, 5]).astype("float32")
    first, second = taylor_features(tf.constant(u)).numpy()
    s = u[0] @ u[1]
    np.testing.assert_allclose(first @ second, 1 + s + s**2 / 2, rtol=1e-5)
    assert len(first) == kernels.taylor_memory_shape(1, 5, 1)[1] == 21


def test_low_precision_is_summed_in_float32():
    inputs = [tf.cast(x, tf.bfloat16) for x in random_inputs()]
    y = kernels.taylor_attention(*inputs, causal=True)
    expected = kernels.taylor_attention(*(tf.cast(x, tf.float32) for x in inputs), causal=True)
    assert y.dtype == tf.bfloat16
    np.testing.assert_array_equal(y, tf.cast(expected, tf.bfloat16))


@pytest.mark.parametrize("time", [BLOCK, 2 * BLOCK, 3 * BLOCK - 1])
@pytest.mark.parametrize("causal", [False, True])
def test_cost_is_what_the_graph_has(time, causal):
    specs = [tf.TensorSpec([1, time, HEADS, dim]) for dim in (KEY_DIM, KEY_DIM, VALUE_DIM)]
    counted = counting.multiply_adds(
        lambda *inputs: kernels.taylor_attention(*inputs, causal=causal), *specs
    ).total()
    assert kernels.taylor_attention_cost(time, HEADS, KEY_DIM, VALUE_DIM, causal) == counted


def test_as_tflite():
    specs = [
        tf.TensorSpec([None, None, HEADS, dim], name=name)
        for dim, name in ((KEY_DIM, "a"), (KEY_DIM, "b"), (VALUE_DIM, "c"))
    ]
    for causal in (False, True):
        interpreter = converted(
            lambda *inputs, causal=causal: kernels.taylor_attention(*inputs, causal=causal), *specs
        )
        for time in (3, TIME):
            inputs = random_inputs(time)
            expected = kernels.taylor_attention(*inputs, causal=causal)
            np.testing.assert_allclose(run(interpreter, *inputs), expected, atol=1e-5)
