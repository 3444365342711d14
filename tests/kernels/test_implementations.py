"""All forms of a kernel give the values and gradients of the plain one."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels
from convnlp.kernels import compiled

KERNELS = {"depthwise": kernels.depthwise_conv, "dynamic": kernels.dynamic_conv}
# Float32: sums of some hundred terms of size one in another order. bfloat16 keeps eight bits; all forms add
# in float32 and round at most thrice (product, Gram matrix, result), each by at most 2^-8.
TOLERANCE = {tf.float32: 1e-5, tf.bfloat16: 3 * 2**-8}

# T, D, H, K, dilation, causal: even and odd kernels, longer than the sequence and than a block of the
# gradient, a head for each channel and one for all. Each costs the dynamic kernel two compilations: no more.
SETTINGS = [
    (3, 4, 2, 7, 1, False),
    (3, 4, 2, 7, 3, True),
    (20, 8, 8, 4, 1, True),
    (20, 8, 8, 4, 3, False),
    (37, 6, 1, 3, 2, True),
    (40, 4, 2, 19, 1, False),
    (5, 4, 4, 1, 2, False),
]
THREE_BLOCKS = (70, 4, 2, 6, 1, True)
settings = pytest.mark.parametrize(
    "setting", SETTINGS, ids="T{0[0]}-D{0[1]}-H{0[2]}-K{0[3]}-r{0[4]}-{0[5]}".format
)


def arguments(kernel, size, dtype):
    """x, taps and the output's gradient, two rows each."""
    time, dim, heads, taps = size
    rng = np.random.default_rng(0)
    shape = [2, time, heads, taps] if kernel == "dynamic" else [heads, taps]
    x, dy = (rng.normal(size=[2, time, dim]) for _ in range(2))
    return [tf.cast(value.astype("float32"), dtype) for value in (x, rng.normal(size=shape), dy)]


def segments(time):
    """Two packed rows [2,T]: the one full, the other with a pad at its end."""
    positions = np.arange(time)
    return tf.constant(
        np.stack([1 + 3 * positions // time, np.where(positions < time - 1, 1 + 2 * positions // time, 0)])
    )


def value_and_gradients(kernel, form, x, taps, dy, **options):
    """[y, dx, dtaps] as float32."""
    with kernels.implementation(form), tf.GradientTape() as tape:
        tape.watch([x, taps])
        y = KERNELS[kernel](x, taps, **options)
    results = [y, *tape.gradient(y, [x, taps], output_gradients=dy)]
    return [tf.cast(result, tf.float32).numpy() for result in results]


def assert_equal(results, expected, dtype):
    for name, result, plain in zip(("y", "dx", "dtaps"), results, expected, strict=True):
        bound = TOLERANCE[dtype] * max(1.0, np.abs(plain).max())
        np.testing.assert_allclose(result, plain, rtol=0, atol=bound, err_msg=name)


@pytest.mark.parametrize("packed", [False, True], ids=["", "packed"])
@pytest.mark.parametrize("kernel", KERNELS)
@settings
def test_forms_are_equal(kernel, setting, packed):
    *size, rate, causal = setting
    x, taps, dy = arguments(kernel, size, tf.float32)
    options = {"dilation_rate": rate, "causal": causal, "segment_ids": segments(size[0]) if packed else None}
    expected = value_and_gradients(kernel, "plain", x, taps, dy, **options)
    for form in ("fast", "inference", "edge"):
        assert_equal(value_and_gradients(kernel, form, x, taps, dy, **options), expected, tf.float32)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("setting", [SETTINGS[0], SETTINGS[2], SETTINGS[4]], ids=str)
def test_forms_are_equal_in_bfloat16(kernel, setting):
    *size, rate, causal = setting
    x, taps, dy = arguments(kernel, size, tf.bfloat16)
    options = {"dilation_rate": rate, "causal": causal}
    expected = value_and_gradients(kernel, "plain", x, taps, dy, **options)
    assert_equal(value_and_gradients(kernel, "fast", x, taps, dy, **options), expected, tf.bfloat16)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("packed", [False, True], ids=["", "packed"])
@pytest.mark.parametrize(
    "setting", [SETTINGS[0], SETTINGS[3], SETTINGS[4], SETTINGS[5], THREE_BLOCKS], ids=str
)
def test_the_dynamic_kernel_equals_softmax_and_convolution(setting, packed, dtype):
    """Written out: a softmax of the logits in float32, and the kernel without it."""
    *size, rate, causal = setting
    x, logits, dy = arguments("dynamic", size, dtype)
    options = {"dilation_rate": rate, "causal": causal, "segment_ids": segments(size[0]) if packed else None}
    with kernels.implementation("plain"), tf.GradientTape() as tape:
        tape.watch([x, logits])
        y = kernels.dynamic_conv(x, tf.nn.softmax(tf.cast(logits, tf.float32)), **options)
    expected = [y, *tape.gradient(y, [x, logits], output_gradients=dy)]
    expected = [tf.cast(value, tf.float32).numpy() for value in expected]
    for form in ("fast", "plain", "inference", "edge"):
        results = value_and_gradients("dynamic", form, x, logits, dy, softmax=True, **options)
        assert_equal(results, expected, dtype)


@pytest.mark.parametrize("form", ["fast", "plain", "inference"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_no_rows_give_no_rows_and_gradients_of_zero(kernel, form):
    """Eagerly, and in a graph that does not know that there are none."""
    for setting in (SETTINGS[3], SETTINGS[0]):
        *size, rate, causal = setting
        x, taps, dy = arguments(kernel, size, tf.float32)
        empty = [x[:0], taps[:0] if kernel == "dynamic" else taps, dy[:0]]
        options = {"dilation_rate": rate, "causal": causal}

        @tf.function(input_signature=[tf.TensorSpec([None, *value.shape[1:]]) for value in (x, dy)])
        def in_a_graph(x, dy, taps=taps, options=options):
            taps = taps[: tf.shape(x)[0]] if kernel == "dynamic" else tf.identity(taps)
            with kernels.implementation(form), tf.GradientTape() as tape:
                tape.watch([x, taps])
                y = KERNELS[kernel](x, taps, **options)
            return [y, *tape.gradient(y, [x, taps], output_gradients=dy)]

        for results in (value_and_gradients(kernel, form, *empty, **options), in_a_graph(empty[0], empty[2])):
            assert [result.shape for result in results] == [value.shape for value in (x[:0], x[:0], empty[1])]
            # The framework's gradient of a filter, which nothing served asks for, is not even set then.
            assert form == "inference" or not np.any(results[2])


@pytest.mark.parametrize(
    ("dtype", "kernel_size", "outside"),
    [
        (tf.float32, 7, []),
        (tf.float32, 31, ["Softmax"]),
        (tf.bfloat16, 7, ["PartitionedCall"]),  # the taps in float32 are a loop of their own
        (tf.bfloat16, 31, ["Cast", "Softmax"]),
    ],
)
def test_softmax_and_dynamic_taps_are_one_loop(dtype, kernel_size, outside):
    x, logits, _ = arguments("dynamic", (40, 8, 2, kernel_size), dtype)
    conv = tf.function(lambda *args: kernels.dynamic_conv(*args, softmax=True))
    graph = conv.get_concrete_function(x, logits).graph
    around = {"Placeholder", "Const", "ExpandDims", "EnsureShape", "Identity", "IdentityN"}
    operations = [node.type for node in graph.get_operations() if node.type not in around]
    assert sorted(operations) == sorted([*outside, "PartitionedCall"])


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_graph_of_unknown_lengths_equals_the_plain_form(kernel):
    """One trace with unknown batch and length serves all, also in a loop that adds up gradients."""
    dim, heads, size = 8, 2, 4
    x_spec = tf.TensorSpec([None, None, dim])
    taps_spec = tf.TensorSpec([None, None, heads, size] if kernel == "dynamic" else [heads, size])

    @tf.function(input_signature=[x_spec, taps_spec, x_spec])
    def thrice(x, taps, dy):
        total = tf.zeros_like(taps)
        for _ in tf.range(3):
            with tf.GradientTape() as tape:
                tape.watch(taps)
                y = KERNELS[kernel](x, taps, causal=True)
            total += tape.gradient(y, taps, output_gradients=dy)
        return total

    for time in (3, 20):
        x, taps, dy = arguments(kernel, (time, dim, heads, size), tf.float32)
        dtaps = value_and_gradients(kernel, "plain", x, taps, dy, causal=True)[2]
        # Three times the float32 error of one gradient.
        np.testing.assert_allclose(thrice(x, taps, dy), 3 * dtaps, atol=3e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_static_shapes_survive(kernel):
    for form in ("fast", "plain", "inference", "edge"):
        x, taps, dy = arguments(kernel, (5, 8, 2, 4), tf.float32)
        with kernels.implementation(form):
            traced = tf.function(
                lambda x, taps: KERNELS[kernel](x, taps, dilation_rate=2)
            ).get_concrete_function(x, taps)
        assert traced.output_shapes == dy.shape


def operations(function, *args):
    """The types of all operations that `function` traces to, those of its inner functions included."""
    graph = tf.function(function).get_concrete_function(*args).graph.as_graph_def()
    nodes = [*graph.node, *(node for inner in graph.library.function for node in inner.node_def)]
    return [node.op for node in nodes], [*graph.library.function]


def test_the_fast_gradient_never_runs_the_frameworks_filter_gradient():
    x, taps, dy = arguments("depthwise", (20, 8, 2, 4), tf.float32)
    for rate in (1, 3):
        names, _ = operations(
            lambda x, taps, dy, rate=rate: tf.gradients(kernels.depthwise_conv(x, taps, rate), [x, taps], dy),
            x,
            taps,
            dy,
        )
        assert names.count("DepthwiseConv2dNative") == 3  # forward, dx and dtaps
        assert not [name for name in names if "Backprop" in name]


@pytest.mark.parametrize("kernel", KERNELS)
def test_inference_graphs_hold_plain_operations_only(kernel):
    x, taps, _ = arguments(kernel, (20, 8, 2, 4), tf.float32)
    with kernels.implementation("inference"):
        names, inner_functions = operations(
            lambda x, taps: KERNELS[kernel](x, taps, dilation_rate=3), x, taps
        )
    assert "IdentityN" not in names  # the mark of a custom gradient
    assert not inner_functions


def test_edge_graphs_of_unknown_lengths_hold_what_xnnpack_takes():
    """No sum that it does not have, no window whose bounds are computed, no reshapes around a product."""
    x = tf.TensorSpec([None, None, 8])
    taps = tf.TensorSpec([None, None, 2, 5])
    with kernels.implementation("edge"):
        graph = tf.function(kernels.dynamic_conv).get_concrete_function(x, taps).graph
        product = tf.function(kernels.project).get_concrete_function(x, tf.TensorSpec([8, 4])).graph
    assert "AddN" not in [node.type for node in graph.get_operations()]
    windows = [
        node
        for node in graph.get_operations()
        if node.type == "StridedSlice" and node.inputs[0].shape.rank > 1
    ]
    assert len(windows) == 10  # of x and of the taps
    for node in windows:
        assert [bound.op.type for bound in node.inputs[1:]] == ["Const"] * 3
    assert not {"Shape", "Reshape"} & {node.type for node in product.get_operations()}


@pytest.mark.parametrize("shape", [[3, 8], [2, 3, 8]], ids=str)
def test_projections_are_equal(shape):
    rng = np.random.default_rng(0)
    x, kernel, dy = (rng.normal(size=size).astype("float32") for size in (shape, [8, 4], [*shape[:-1], 4]))
    for form in ("fast", "plain", "inference", "edge"):
        with kernels.implementation(form), tf.GradientTape() as tape:
            values = tf.constant(x), tf.constant(kernel)
            tape.watch(values)
            y = kernels.project(*values)
        dx, dkernel = tape.gradient(y, values, output_gradients=tf.constant(dy))
        np.testing.assert_allclose(y, x @ kernel, atol=1e-5)
        np.testing.assert_allclose(dx, dy @ kernel.T, atol=1e-5)
        np.testing.assert_allclose(dkernel, x.reshape(-1, 8).T @ dy.reshape(-1, 4), atol=1e-5)


def test_the_selection_is_nested_and_restored():
    assert kernels.current_implementation() == "fast"
    with kernels.implementation("plain"):
        with kernels.implementation("inference"):
            assert kernels.current_implementation() == "inference"
        with pytest.raises(ZeroDivisionError), kernels.implementation("fast"):
            raise ZeroDivisionError
        assert kernels.current_implementation() == "plain"
    assert kernels.current_implementation() == "fast"


def test_selections_that_overlap_in_threads_leave_each_other_and_the_rest_alone():
    done = None, None, None
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        of_first, of_second = kernels.implementation("inference"), kernels.implementation("edge")
        first.submit(of_first.__enter__).result()
        second.submit(of_second.__enter__).result()
        assert first.submit(kernels.current_implementation).result() == "inference"
        assert kernels.current_implementation() == "fast"
        first.submit(of_first.__exit__, *done).result()
        assert second.submit(kernels.current_implementation).result() == "edge"
        second.submit(of_second.__exit__, *done).result()
    assert kernels.current_implementation() == "fast"


def test_an_unknown_implementation_is_named():
    message = r"`name` must be one of auto, fast, .*Received: 'quick'"
    with pytest.raises(ValueError, match=message), kernels.implementation("quick"):
        pass


def test_all_compiled_loops_are_kept_in_one_table_and_traced_once_for_all_lengths():
    def run(length):
        x, taps, dy = arguments("dynamic", (length, 32, 2, 3), tf.float32)
        with kernels.implementation("fast"), tf.GradientTape() as tape:
            tape.watch(x)
            y = kernels.dynamic_conv(x, taps)
        tape.gradient(y, x, dy)
        return compiled._traced.cache_info().currsize

    before = compiled._traced.cache_info().currsize
    assert before < run(9) == run(11)
