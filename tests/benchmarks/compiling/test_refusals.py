"""Who refused what: messages of TensorFlow, made here, and of the TPU's compiler, as it has written them."""

import doctest
import types

import pytest
import tensorflow as tf

from benchmarks.compiling import lowering, refusals


def refused(function, *specs):
    compiled = tf.function(function, autograph=False, jit_compile=True)
    with pytest.raises(lowering.LoweringError) as raised:
        lowering.lowered(types.SimpleNamespace(function=compiled, specs=specs))
    return refusals.of_error("lowering", str(raised.value))


def test_an_operation_without_an_xla_form_is_named():
    found = refused(lambda x: tf.strings.length(tf.strings.as_string(x)), tf.TensorSpec([3]))
    assert found["stage"] == "lowering"
    assert found["operation"] in ("AsString", "StringLength")
    assert found["reason"].startswith("Detected unsupported operations")
    assert "\n" not in found["reason"]


def test_a_shape_that_depends_on_values_is_named():
    found = refused(
        lambda x, n: tf.reshape(x, tf.stack([n, -1])), tf.TensorSpec([6]), tf.TensorSpec([], tf.int32)
    )
    assert found["operation"] == "Reshape"


@pytest.mark.parametrize(
    ("message", "operation"),
    [
        ("error: failed to legalize operation 'mhlo.copy' that was explicitly marked illegal", "mhlo.copy"),
        ("loc(\"a\"): error: 'stablehlo.fft' op requires a complex operand", "stablehlo.fft"),
        (
            "UNIMPLEMENTED: not implemented: %sort.4 = (f32[8]{0}, s32[8]{0}) sort(%a, %b), dimensions={0}",
            "sort",
        ),
        ("INTERNAL: something else", "not named"),
    ],
)
def test_what_the_compiler_names(message, operation):
    assert refusals.of_error("compiling", message)["operation"] == operation


def test_memory_is_a_refusal_with_figures():
    message = (
        "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. "
        "Used 23.50G of 15.75G hbm. Exceeded hbm capacity by 7.75G.\n\nTotal hbm usage >= 24.0G:"
    )
    found = refusals.of_error("compiling", message)
    assert found["operation"] == "memory"
    assert found["needed_bytes"] == round(23.5 * 2**30)
    assert found["memory_bytes"] == round(15.75 * 2**30)
    assert found["needed_for"] == "all"


def test_temporaries_that_do_not_fit_are_a_refusal_for_memory():
    message = (
        "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory "
        "required for HLO temporaries (22.21G) exceeds available HBM (15.75G). HLO "
        "module: a_inference_function_45958__.2097."
    )
    found = refusals.of_error("compiling", message)
    assert (found["operation"], found["needed_for"]) == ("memory", "temporaries")
    assert found["needed_bytes"] == round(22.21 * 2**30)
    assert found["memory_bytes"] == round(15.75 * 2**30)


def test_a_crash_says_its_signal_and_its_check():
    check = "F1122 10:00:00 99 fusion.cc:12] Check failed: ok for %f.1 = f32[8]{0} reduce-window(%p)"
    log = f"I1 all is well\n{check}\n"
    found = refusals.of_crash("SIGABRT", log)
    assert found["operation"] == "reduce-window"
    assert found["reason"].startswith("SIGABRT: F1122")
    assert refusals.of_crash("SIGSEGV", "")["operation"] == "not named"


def test_a_reason_is_one_line_of_bounded_length():
    found = refusals.of_error("compiling", "\n" + "x" * 1000 + "\nsecond")
    assert len(found["reason"]) == 300
    assert found["reason"].endswith("...")


def test_examples():
    found = doctest.testmod(refusals)
    assert found.attempted
    assert not found.failed
