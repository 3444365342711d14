"""Counts the cores that this process may use, which in a container or under `taskset` are not all."""

import os


def num_cores():
    """Returns the number of cores, at least 1."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
