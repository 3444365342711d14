"""Turns a TensorFlow function into a program for the TPU's compiler."""

from benchmarks.compiling import random_numbers


class LoweringError(Exception):
    """TensorFlow cannot lower a step to XLA; the message is its own."""


def lowered(step):
    """Returns a step as StableHLO text.

    Args:
        step: `benchmarks.compiling.step.Step`.

    Raises:
        LoweringError: if one of its operations has no XLA form, or a shape is not static.
    """
    ir = step.function.experimental_get_compiler_ir(*step.specs)
    try:
        # For "CPU", as there is no TPU; `random_numbers` replaces what TensorFlow lowers differently for one.
        program = ir(stage="hlo_serialized", platform_name="CPU")
    except ValueError as error:
        raise LoweringError(str(error).removeprefix("Failed getting HLO text: '")) from error

    from jax._src.lib import xla_client

    computation = xla_client.XlaComputation(program)
    text = xla_client._xla.mlir.xla_computation_to_mlir_module(computation)
    # The compiler refuses `mhlo.copy`; neither operation computes anything.
    text = text.replace(" mhlo.copy ", " stablehlo.optimization_barrier ")
    return random_numbers.with_default_generator(text)
