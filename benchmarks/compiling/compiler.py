"""The TPU's compiler (libtpu), asked from a machine without a TPU.

Its way in are private names of jax and jaxlib: requirements-tpu.txt pins the versions that have them.
"""

import importlib.util

import numpy as np

from benchmarks.compiling import program_text

PACKAGES = ("jax", "libtpu")


class RefusedError(Exception):
    """The compiler does not take a program; the message is its own."""


def missing():
    """The packages that are not installed."""
    return [name for name in PACKAGES if importlib.util.find_spec(name) is None]


def compiled(program, chip):
    """Figures of a program that the compiler makes for one chip.

    Args:
        program: str, StableHLO.
        chip: `benchmarks.compiling.chips.Chip`.

    Returns:
        (figures, text of the optimised program). The figures are a dict: `flops`, `bytes_accessed` (by the
        units, of any memory) and `transcendentals` by its own count; `memory`, a dict of bytes; and what
        `program_text.figures` finds.

    Raises:
        RefusedError: if it does not take the program, as when it does not fit the chip's memory.
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
