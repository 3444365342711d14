"""Sets the clock of a program back: imported by --modules, it patches `time.time` and `time.time_ns`.

The file named by the environment variable `FILE` says by how many seconds; it may change at any time.
TensorFlow's own threads read the system's clock, which is not changed, because that would affect the whole
machine.
"""

import os
import time

FILE = "CONVNLP_SOAK_CLOCK"

_time_ns = time.time_ns


def back_by():
    """Returns the seconds by which the clock is behind; 0 without the file."""
    try:
        with open(os.environ[FILE], encoding="ascii") as file:
            return int(file.read() or 0)
    except (KeyError, FileNotFoundError):
        return 0


def stepped_time_ns():
    """Returns `time.time_ns` of the clock that was set back."""
    return _time_ns() - back_by() * 10**9


if FILE in os.environ:
    time.time_ns = stepped_time_ns
    time.time = lambda: stepped_time_ns() / 1e9
