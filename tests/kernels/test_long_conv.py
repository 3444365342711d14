"""The long convolution across blocks, against a loop over the distances in float64."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import counting
from convnlp import kernels
from convnlp.kernels.long_conv import BLOCK
from tests.tflite import converted, run

BATCH, TIME, HEADS, DIM, NUM_WAVES = 2, 2 * BLOCK + 45, 2, 6, 3
# Texts that end in a block, fill one, reach over several, begin at a border; and pads.
SEGMENTS = np.stack(
    [
        np.repeat([1, 2, 3, 0], [BLOCK + 2, 100, 61, 10]),
        np.repeat([1, 2, 3, 4, 5, 0], [5, 123, BLOCK, 40, 2, 3]),
    ]
).astype("int32")
PREFIX = np.zeros([BATCH, TIME], bool)
PREFIX[0, :140] = PREFIX[0, 130:180] = PREFIX[1, :3] = PREFIX[1, 5:100] = PREFIX[1, 128:270] = True
PREFIX_OF_ONE = np.arange(TIME) < np.array([[200], [30]])
# Of sums of some hundred terms of size one, with angles of up to 600, which float32 rounds by 3e-5.
TOLERANCE = 3e-4


def random_inputs(time=TIME):
    return np.random.default_rng(0).normal(size=[BATCH, time, DIM]).astype("float32")


def random_waves():
    """Of both sides; decays from one position to several blocks."""
    rng = np.random.default_rng(1)
    decay = np.array([[0.001, 0.02, 1.0], [0.003, 0.1, 0.4]])
    return [
        tuple(
            values.astype("float32")
            for values in (
                decay * rng.uniform(0.5, 2, size=decay.shape),
                rng.normal(size=decay.shape),
                rng.normal(size=decay.shape) / 3,
            )
        )
        for _ in range(2)
    ]


def expected(x, past, future, tokens=None, segment_ids=None, prefix_mask=None):
    """The equation, a distance at a time."""
    x = np.asarray(x, "float64") if tokens is None else np.where(tokens[..., np.newaxis], x, 0.0)
    time, y = x.shape[1], np.zeros(x.shape)
    for distance in range(1 - time, time):
        waves = past if distance >= 0 else future
        if waves is None:
            continue
        decay, frequency, amplitude = (np.asarray(values, "float64") for values in waves)
        taps = amplitude * np.exp(-decay * abs(distance)) * np.cos(frequency * distance)  # [H,S]
        taps = np.repeat(taps.sum(1), DIM // HEADS)
        writes = slice(max(0, distance), time + min(0, distance))
        reads = slice(max(0, -distance), time - max(0, distance))
        seen = np.ones(x[:, reads, :1].shape, bool)
        if segment_ids is not None:
            seen &= (segment_ids[:, reads] == segment_ids[:, writes])[..., np.newaxis]
        if prefix_mask is not None and distance < 0:
            seen &= prefix_mask[:, reads, np.newaxis]
        y[:, writes] += taps * x[:, reads] * seen
    return y


def call(x, past, future, **masks):
    return kernels.long_conv(x, kernels.Waves(*past), future and kernels.Waves(*future), **masks)


USES = {
    "both_sides": (False, {}),
    "causal": (True, {}),
    "packed": (False, {"segment_ids": SEGMENTS}),
    "packed_causal": (True, {"segment_ids": SEGMENTS}),
    "prefix": (False, {"prefix_mask": PREFIX_OF_ONE}),
    "packed_prefix": (False, {"segment_ids": SEGMENTS, "prefix_mask": PREFIX}),
}
uses = pytest.mark.parametrize(("causal", "masks"), USES.values(), ids=USES)


@uses
@pytest.mark.parametrize("time", [1, BLOCK, BLOCK + 1, TIME])
def test_values(causal, masks, time):
    x, (past, future) = random_inputs(time), random_waves()
    future = None if causal else future
    masks = {name: mask[:, :time] for name, mask in masks.items()}
    y = call(x, past, future, **masks)
    np.testing.assert_allclose(y, expected(x, past, future, **masks), atol=TOLERANCE)


@uses
def test_gradients_are_those_of_finite_differences(causal, masks):
    """Of a weighted sum of the outputs, which is linear in x, by x and by each number of the waves."""
    x, sides = random_inputs(), random_waves()
    sides = sides[:1] if causal else sides
    shapes = [np.shape(values) for side in sides for values in side]
    weighted = np.random.default_rng(2).normal(size=x.shape)
    numbers = np.concatenate([np.ravel(values) for side in sides for values in side]).astype("float64")

    def split(numbers):
        parts = np.split(numbers, np.cumsum([np.prod(shape) for shape in shapes])[:-1])
        parts = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
        return parts[:3], parts[3:] or None

    variables = [tf.constant(part, tf.float32) for side in split(numbers) if side for part in side]
    inputs = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch([inputs, *variables])
        y = call(inputs, variables[:3], variables[3:] or None, **masks)
        loss = tf.reduce_sum(tf.cast(y, tf.float64) * weighted)
    by_x, *by_waves = tape.gradient(loss, [inputs, *variables])

    def value(numbers, x=x):
        return np.sum(expected(x, *split(numbers), **masks) * weighted)

    direction = np.random.default_rng(3).normal(size=x.shape)
    slope = value(numbers, x + direction) - value(numbers)  # it is linear
    np.testing.assert_allclose(np.sum(by_x * direction), slope, rtol=1e-3)
    by_waves = np.concatenate([np.ravel(gradient) for gradient in by_waves])
    rng = np.random.default_rng(4)
    for _ in range(3):
        step = 1e-5 * numbers * rng.normal(size=numbers.shape)
        slope = value(numbers + step) - value(numbers - step)
        np.testing.assert_allclose(np.sum(by_waves * 2 * step), slope, rtol=1e-3)


@uses
def test_a_graph_that_does_not_know_the_length_takes_any(causal, masks):
    past, future = random_waves()
    future = None if causal else future
    specs = [tf.TensorSpec([None, None, DIM])]
    specs += [tf.TensorSpec([None, None], tf.int32 if name == "segment_ids" else tf.bool) for name in masks]

    @tf.function(input_signature=specs)
    def in_a_graph(x, *given):
        return call(x, past, future, **dict(zip(masks, given, strict=True)))

    for time in (0, 5, BLOCK, TIME):
        x, cut = random_inputs(time), {name: mask[:, :time] for name, mask in masks.items()}
        np.testing.assert_allclose(
            in_a_graph(x, *cut.values()), expected(x, past, future, **cut), atol=TOLERANCE
        )


def test_what_is_hidden_leaves_no_trace_however_large():
    """Not one bit of an output changes, whichever blocks the text lies in."""
    x, (past, future) = random_inputs(), random_waves()
    for causal, text in itertools.product((True, False), range(1, 6)):
        own = text == SEGMENTS
        other = np.where(own[..., np.newaxis], x, 1e4 * x)
        sides = past, None if causal else future
        y, changed = (call(values, *sides, segment_ids=SEGMENTS) for values in (x, other))
        np.testing.assert_array_equal(changed.numpy()[own], y.numpy()[own])


@pytest.mark.parametrize("chunk", [1, 50, TIME])
def test_steps_equal_one_call(chunk):
    x, (past, _) = random_inputs(), random_waves()
    state, outputs = tf.zeros([BATCH, *kernels.long_conv_state_shape(DIM, HEADS, NUM_WAVES)]), []
    for start in range(0, TIME, chunk):
        y, state = kernels.long_conv_step(x[:, start : start + chunk], kernels.Waves(*past), state)
        outputs.append(y)
    np.testing.assert_allclose(np.concatenate(outputs, 1), expected(x, past, None), atol=TOLERANCE)


def test_low_precision_is_summed_in_float32():
    x, (past, future) = tf.cast(random_inputs(), tf.bfloat16), random_waves()
    y = call(x, past, future)
    assert y.dtype == tf.bfloat16
    np.testing.assert_array_equal(y, tf.cast(call(tf.cast(x, tf.float32), past, future), tf.bfloat16))


@pytest.mark.parametrize("time", [BLOCK - 1, BLOCK, 2 * BLOCK, 3 * BLOCK - 1])
@pytest.mark.parametrize("causal", [False, True])
def test_cost_is_what_the_graph_has(time, causal):
    past, future = ([tf.constant(values) for values in side] for side in random_waves())
    future = None if causal else future
    counted = counting.multiply_adds(lambda x: call(x, past, future), tf.TensorSpec([1, time, DIM])).total()
    assert kernels.long_conv_cost(time, DIM, HEADS, NUM_WAVES, causal) == counted


@pytest.mark.parametrize("causal", [False, True])
def test_as_tflite(causal):
    past, future = random_waves()
    future = None if causal else future
    interpreter = converted(lambda x: call(x, past, future), tf.TensorSpec([None, None, DIM], name="a"))
    for time in (3, TIME):
        x = random_inputs(time)
        np.testing.assert_allclose(run(interpreter, x), expected(x, past, future), atol=TOLERANCE)
