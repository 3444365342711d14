"""What a training process tells the launcher that started it: that it lives, and how far it is.

`convnlp launch` hands each worker the descriptor of a pipe in the environment variable CONVNLP_HEARTBEAT; a
process without it tells nobody. A line of JSON is a mark of progress, {"ready": 40} or {"step": 50}; all
workers of a run make the same marks in the same order, so the one with the fewest is the one that the others
wait for. A thread writes {} every second besides: a process that makes no marks but answers is waiting or
busy, one that does not even write these is stopped or stuck.
"""

import contextlib
import json
import os
import signal
import stat
import threading

VARIABLE = "CONVNLP_HEARTBEAT"
BEAT_SECONDS = 1.0
_pipe = []  # of this process, once it has begun


def begin():
    """Starts to tell, if there is a launcher to tell."""
    descriptor = os.environ.pop(VARIABLE, "")  # lest a process that this one starts takes it for its own
    if not descriptor.isdecimal():
        return
    with contextlib.suppress(OSError):  # of a variable that was left behind
        if stat.S_ISFIFO(os.fstat(int(descriptor)).st_mode):
            os.set_blocking(
                int(descriptor), False
            )  # a launcher that does not read must not stop the training
            _pipe.append(int(descriptor))
            threading.Thread(target=_beat, daemon=True).start()


def mark(**values):
    """Tells of progress, such as `step=50`."""
    if _pipe:
        _write(values)


def _beat():
    pause = threading.Event()
    while _write({}):
        pause.wait(BEAT_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)  # the launcher has died, and nobody else would end this process


def _write(values):
    """Writes a line; returns whether there is still somebody to read it."""
    try:
        os.write(_pipe[0], json.dumps(values).encode() + b"\n")  # short enough to be written whole
    except BlockingIOError:
        pass  # a full pipe: the launcher knows at least that there was something
    except OSError:
        return False
    return True
