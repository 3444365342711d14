"""Steps the clock of a program back: imported by --modules, it patches `time.time` and `time.time_ns`.

By how much stands in the file that the variable `FILE` names, in seconds, and may change at any time.
TensorFlow's own threads read the system's clock, which stays as it is: stepping it would step everybody's on
the machine.
"""

import os
import time

FILE = "CONVNLP_SOAK_CLOCK"

_time_ns = time.time_ns


def back_by():
    """Seconds by which the clock is behind; 0 without the file."""
    try:
        with open(os.environ[FILE], encoding="ascii") as file:
            return int(file.read() or 0)
    except (KeyError, FileNotFoundError):
        return 0


def stepped_time_ns():
    """`time.time_ns` of the clock that was stepped back."""
    return _time_ns() - back_by() * 10**9


if FILE in os.environ:
    time.time_ns = stepped_time_ns
    time.time = lambda: stepped_time_ns() / 1e9
