"""The TPU's compiler (libtpu), called on a machine without a TPU.

It is only reachable through private names of jax and jaxlib; requirements-tpu.txt pins versions that have
them.
"""

import importlib.util

import numpy as np

from benchmarks.compiling import program_text

PACKAGES = ("jax", "libtpu")


class RefusedError(Exception):
    """The compiler rejects a program; the message is its own."""


def missing():
    """Returns the packages that are not installed."""
    return [name for name in PACKAGES if importlib.util.find_spec(name) is None]


def compiled(program, chip):
    """Compiles a program for one chip and returns the figures of the result.

    Args:
        program: str, StableHLO.
        chip: `benchmarks.compiling.chips.Chip`.

    Returns:
        (figures, text of the optimised program). The figures are a dict: by the compiler's own count,
        `flops`, `transcendentals` and `bytes_accessed` (by the units, in any memory); `memory`, a dict of
        bytes; and the results of `program_text.figures`.

    Raises:
        RefusedError: if it rejects the program, for example because it does not fit into the chip's memory.
    """
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax.errors import JaxRuntimeError
    from jax.experimental import topologies
    from jaxlib.mlir import ir

    device = topologies.get_topology_desc(platform="tpu", topology_name=chip.topology).devices[0]
    options = xla_client.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    options.device_assignment = xla_client.DeviceAssignment.create(np.array([[device.id]]))
    with mlir.make_ir_context():
        try:
            module = ir.Module.parse(program)
            executable = device.client.compile(module, xla_client.DeviceList((device,)), options)
        except (JaxRuntimeError, ir.MLIRError) as error:
            raise RefusedError(str(error)) from error
    cost = executable.cost_analysis()
    sizes = executable.get_compiled_memory_stats()
    text = executable.hlo_modules()[0].to_string()
    figures = {
        "flops": cost["flops"],
        "bytes_accessed": cost["bytes accessed"],
        "transcendentals": cost.get("transcendentals", 0.0),
        "memory": {
            "arguments": sizes.argument_size_in_bytes,
            "outputs": sizes.output_size_in_bytes - sizes.alias_size_in_bytes,  # others overwrite arguments
            "temporaries": sizes.temp_size_in_bytes,
            "code": sizes.generated_code_size_in_bytes,
        },
        **program_text.figures(text),
    }
    return figures, text
