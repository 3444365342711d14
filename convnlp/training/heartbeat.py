"""Tells the launcher of a training process that the process is alive, and how far it has come.

`convnlp launch` passes each worker the descriptor of a pipe in the environment variable CONVNLP_HEARTBEAT; a
process without it tells nobody. A line of JSON is a mark of progress, {"ready": 40} or {"step": 50}. All
workers of a run make the same marks in the same order, so the others wait for the one with the fewest. A
thread also writes {} every second: a process that writes these but makes no marks is waiting or busy; one
that does not even write these is stopped or stuck.
"""

import contextlib
import json
import os
import signal
import stat
import threading

VARIABLE = "CONVNLP_HEARTBEAT"
BEAT_SECONDS = 1.0
_pipe = []  # the descriptor, once `begin` has been called


def begin():
    """Starts the heartbeat if a launcher has started this process."""
    descriptor = os.environ.pop(VARIABLE, "")  # so that child processes do not use it
    if not descriptor.isdecimal():
        return
    with contextlib.suppress(OSError):  # the variable was left over
        if stat.S_ISFIFO(os.fstat(int(descriptor)).st_mode):
            # A launcher that does not read must not block the training.
            os.set_blocking(int(descriptor), False)
            _pipe.append(int(descriptor))
            threading.Thread(target=_beat, daemon=True).start()


def mark(**values):
    """Reports progress, such as `step=50`."""
    if _pipe:
        _write(values)


def _beat():
    pause = threading.Event()
    while _write({}):
        pause.wait(BEAT_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)  # the launcher is dead, and nobody else would end this process


def _write(values):
    """Writes a line; returns whether the pipe still has a reader."""
    try:
        os.write(_pipe[0], json.dumps(values).encode() + b"\n")  # short enough to be written whole
    except BlockingIOError:
        pass  # the pipe is full, so the launcher has signs of life to read
    except OSError:
        return False
    return True
