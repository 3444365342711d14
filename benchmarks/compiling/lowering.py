"""From a TensorFlow function to a program for the TPU's compiler."""

from benchmarks.compiling import random_numbers


class LoweringError(Exception):
    """TensorFlow has no XLA form of a step; the message is its own."""


def lowered(step):
    """A step as StableHLO, text.

    Args:
        step: `benchmarks.compiling.step.Step`.

    Raises:
        LoweringError: if there is no XLA form of one of its operations, or a shape is not static.
    """
    ir = step.function.experimental_get_compiler_ir(*step.specs)
    try:
        # For "CPU", as there is no TPU: what TensorFlow lowers otherwise for one is in `random_numbers`.
        program = ir(stage="hlo_serialized", platform_name="CPU")
    except ValueError as error:
        raise LoweringError(str(error).removeprefix("Failed getting HLO text: '")) from error

    from jax._src.lib import xla_client

    computation = xla_client.XlaComputation(program)
    text = xla_client._xla.mlir.xla_computation_to_mlir_module(computation)
    # The compiler refuses `mhlo.copy`; both stand for nothing that is computed.
    text = text.replace(" mhlo.copy ", " stablehlo.optimization_barrier ")
    return random_numbers.with_default_generator(text)
