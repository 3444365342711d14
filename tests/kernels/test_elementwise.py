"""Norm, gate, activation, softmax, cross-entropy: the equations in NumPy, and equal forms."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels
from convnlp.kernels.compiled import rounded
from tests.kernels.test_implementations import operations

# Float32: sums of some dozen terms of size one in another order. bfloat16 keeps eight bits: a form computes
# in float32, or rounds each of at most three steps.
TOLERANCE = {tf.float32: 1e-5, tf.bfloat16: 3 * 2**-8}
FLOATS = pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda dtype: dtype.name)


def normal(*shape, dtype=tf.float32):
    return tf.cast(np.random.default_rng(0).normal(size=shape).astype("float32"), dtype)


def layer_norm(dtype):
    scale, offset = normal(6) + 2.0, normal(6) * 0.5
    return kernels.layer_norm, [3.0 * normal(2, 5, 6, dtype=dtype) + 1.0, scale, offset], 3


def gated_linear_unit(dtype):
    return kernels.gated_linear_unit, [3.0 * normal(2, 5, 8, dtype=dtype)], 1


def gate_with_a_mask(dtype):
    tokens = tf.constant([[True] * 5, [True, True, False, False, False]])
    return kernels.gated_linear_unit, [3.0 * normal(2, 5, 8, dtype=dtype), tokens], 1


def zero_pads(dtype):
    tokens = tf.constant([[True] * 5, [True, False, True, False, False]])
    return kernels.zero_pads, [normal(2, 5, 8, dtype=dtype), tokens], 1


def relu(dtype):
    return kernels.relu, [normal(2, 5, 8, dtype=dtype)], 1


def masked_softmax(dtype, length=7):
    allowed = np.random.default_rng(1).random([2, 1, 4, length]) > 0.4
    allowed[0, 0, 1] = False  # a row that sees nothing
    return kernels.masked_softmax, [2.0 * normal(2, 3, 4, length, dtype=dtype), tf.constant(allowed)], 1


def softmax_with_a_bias(dtype, length=7):
    """Scores, a bias that all texts share, and which scores are allowed."""
    function, (scores, allowed), _ = masked_softmax(dtype, length)
    bias = tf.reverse(normal(3, 4, length), [1])

    def biased(scores, bias, allowed):
        return function(scores, allowed, bias)

    return biased, [scores, bias, allowed], 2


def cross_entropy(dtype, size=11):
    targets = np.random.default_rng(1).integers(0, size, [2, 5])
    return kernels.cross_entropy, [2.0 * normal(2, 5, size, dtype=dtype), tf.constant(targets, tf.int32)], 1


KERNELS = (
    layer_norm,
    gated_linear_unit,
    gate_with_a_mask,
    zero_pads,
    relu,
    masked_softmax,
    softmax_with_a_bias,
    cross_entropy,
)
# Sizes at which the sums over a row take another path: in lanes, with a rest, without.
SETTINGS = [
    *((make, {}) for make in KERNELS),
    *((make, {"length": length}) for make in (masked_softmax, softmax_with_a_bias) for length in (16, 96)),
    *((cross_entropy, {"size": size}) for size in (2048, 2500)),
]
settings = pytest.mark.parametrize(
    ("make", "options"), SETTINGS, ids=lambda value: getattr(value, "__name__", str(value))
)


def expected(make, arguments):
    """The outputs of a kernel by its equation, in float64."""
    x, *others = (value.numpy().astype("float64") for value in arguments)
    if make is layer_norm:
        scale, offset = others
        deviation = np.sqrt(x.var(-1, keepdims=True) + 1e-6)
        return [(x - x.mean(-1, keepdims=True)) / deviation * scale + offset, x]
    if make in (gated_linear_unit, gate_with_a_mask):
        linear, gate = np.split(x, 2, axis=-1)
        y = linear / (1.0 + np.exp(-gate))
        return [y * others[0][..., np.newaxis] if others else y]
    if make is zero_pads:
        return [x * others[0][..., np.newaxis]]
    if make is relu:
        return [np.maximum(x, 0.0)]
    if make is softmax_with_a_bias:
        x, others = x + others[0], others[1:]
    if make in (masked_softmax, softmax_with_a_bias):
        x = np.where(others[0] > 0, x, -1e9)
    probabilities = np.exp(x - x.max(-1, keepdims=True))
    probabilities /= probabilities.sum(-1, keepdims=True)
    if make in (masked_softmax, softmax_with_a_bias):
        return [probabilities]
    return [-np.log(np.take_along_axis(probabilities, others[0].astype(int)[..., None], -1))[..., 0]]


def results(form, function, arguments, num_inputs):
    """Outputs and gradients as float32 arrays; each output's gradient is another."""
    inputs = arguments[:num_inputs]
    with kernels.implementation(form), tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = tf.nest.flatten(function(*arguments))
    upstream = [normal(*y.shape, dtype=y.dtype) * (i + 1.0) for i, y in enumerate(outputs)]
    gradients = tape.gradient(outputs, inputs, output_gradients=upstream)
    return [tf.cast(value, tf.float32).numpy() for value in [*outputs, *gradients]]


def assert_near(values, references, tolerance):
    for value, reference in zip(values, references, strict=True):
        bound = tolerance * max(1.0, np.abs(reference).max())
        np.testing.assert_allclose(value, reference, rtol=0, atol=bound)


@settings
@FLOATS
def test_the_equation_and_equal_forms(make, options, dtype):
    function, arguments, num_inputs = make(dtype, **options)
    plain = results("plain", function, arguments, num_inputs)
    equation = expected(make, arguments)
    assert_near(plain[: len(equation)], equation, TOLERANCE[dtype])
    for form in ("fast", "inference"):
        assert_near(results(form, function, arguments, num_inputs), plain, TOLERANCE[dtype])


@pytest.mark.parametrize("make", KERNELS)
def test_inference_graphs_hold_plain_operations_only(make):
    function, arguments, _ = make(tf.bfloat16)
    with kernels.implementation("inference"):
        names, inner_functions = operations(function, *arguments)
    assert "IdentityN" not in names  # the mark of a custom gradient
    assert not inner_functions


@pytest.mark.parametrize("make", KERNELS)
def test_shapes_survive_and_unknown_ones_are_served(make):
    """One trace with unknown sizes of all axes but the last gives the values of each size."""
    function, arguments, _ = make(tf.bfloat16)
    unknown = [
        tf.TensorSpec([None] * (value.shape.rank - 1) + value.shape[-1:], value.dtype) for value in arguments
    ]
    with kernels.implementation("fast"):
        static = tf.function(function).get_concrete_function(*arguments)
        traced = tf.function(function, unknown)
        traced.get_concrete_function()
    outputs = tf.nest.flatten(traced(*arguments))
    assert [y.shape for y in outputs] == tf.nest.flatten(static.output_shapes)
    for y, same in zip(outputs, tf.nest.flatten(static(*arguments)), strict=True):
        np.testing.assert_array_equal(tf.cast(y, tf.float32), tf.cast(same, tf.float32))


def test_only_large_tensors_are_compiled():
    forms = {(8, 128, 64): "plain", (16, 512, 256): "fast", (None, None, 256): "fast", (None, 8, 16): "plain"}
    for shape, form in forms.items():
        assert kernels.current_implementation(tf.TensorSpec(shape)) == form
    with kernels.implementation("inference"):
        assert kernels.current_implementation(tf.TensorSpec([16, 512, 256])) == "inference"


@pytest.mark.parametrize("shape", [(4,), (2, 4), (2, 3, 4)])
def test_softmax_of_any_rank_without_a_mask(shape):
    scores = normal(*shape, dtype=tf.bfloat16)
    with kernels.implementation("fast"):
        weights = kernels.masked_softmax(scores)
    assert weights.shape == shape
    assert_near([tf.cast(weights, tf.float32)], [tf.nn.softmax(tf.cast(scores, tf.float32)).numpy()], 2**-8)


def test_relu_of_special_values():
    bits = [0x0000, 0x8000, 0x3F80, 0xBF80, 0x7F80, 0xFF80, 0x7FC0, 0xFFC0]  # 0, 1, inf, NaN: + and -
    x = tf.bitcast(tf.constant([bits], tf.uint16), tf.bfloat16)
    with kernels.implementation("fast"):
        y = tf.cast(kernels.relu(x), tf.float32)
    np.testing.assert_array_equal(y, [[0, 0, 1, 0, np.inf, 0, np.nan, np.nan]])


def test_rounding_is_that_of_a_cast():
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-40, -1e-40, 3.4e38, -3.4e38]
    halfway = np.arange(1.0, 3.0, 2**-9, dtype="float32")  # every second one lies between two bfloat16
    x = tf.constant(np.concatenate([special, halfway, -halfway, normal(1000)]).astype("float32"))
    np.testing.assert_array_equal(
        tf.cast(rounded(x, tf.bfloat16), tf.float32), tf.cast(tf.cast(x, tf.bfloat16), tf.float32)
    )
