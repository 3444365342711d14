"""The peak memory of a function in a process of its own."""

import concurrent.futures
import dataclasses
import multiprocessing

from benchmarks import machine
from benchmarks.processes import resident


@dataclasses.dataclass
class Peak:
    """Resident memory of a process, in bytes.

    Args:
        start: int, before the call, with the function's module imported.
        peak: int, the highest until the end of the call.
    """

    start: int
    peak: int


def peak_memory(function, *args):
    """Calls `function(*args)` in a fresh process and measures how much memory that process takes.

    The system's own count for child processes (`getrusage`) includes the memory of the parent, so the child
    reads its /proc/self/status. The number of threads is that of `machine.use_threads` in the parent.

    Args:
        function: function of a module; it and its arguments must be picklable.
        *args: its arguments.

    Returns:
        (`Peak`, what the function returned).
    """
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_measured, function, args).result()


def _measured(function, args):
    machine.tune_allocator()
    start = resident("VmRSS")
    value = function(*args)
    return Peak(start, resident("VmHWM")), value
