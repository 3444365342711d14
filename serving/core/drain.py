"""Ends the process some time after SIGTERM, whatever it is doing."""

import atexit
import os
import signal
import socket
import sys
import threading
import time

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def drain(seconds, begin=lambda: None):
    """From now on, gives the process this much time after SIGTERM or Ctrl-C, and then ends it.

    The handlers of these signals are still called, and should end the process before that. But Python calls
    them only between two steps of the main thread, and exits only when no thread is running. So the time is
    kept in a separate thread, which the signal itself wakes. Must be called in the main thread, after the
    handlers have been set.

    Args:
        seconds: float.
        begin: Callable. Called when the signal comes, in a separate thread, because it may take long.
    """
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    signalled = threading.Event()
    # Both are started here: from Python 3.12 on, no thread can be started once the main thread has ended.
    threading.Thread(target=lambda: signalled.wait() and begin(), name="drain-begin", daemon=True).start()
    # The thread also keeps the sender, which would otherwise be closed.
    waiting = (receiver, sender, seconds, signalled)
    threading.Thread(target=_wait, args=waiting, name="drain", daemon=True).start()
    atexit.register(_limit, seconds)  # Python may exit before that thread has had its turn


def _wait(receiver, sender, seconds, signalled):
    while (number := receiver.recv(1)[0]) not in SIGNALS:
        pass
    name, deadline = signal.Signals(number).name, time.monotonic() + seconds
    _limit(seconds)
    signalled.set()
    time.sleep(max(deadline - time.monotonic(), 0))
    text = f"{name}: giving up what is not finished after {seconds:g} s (--drain_timeout_in_ms)"
    print(text, file=sys.stderr, flush=True)
    os._exit(1)


def _limit(seconds):
    """Has the system end the process later, in case it hangs after Python has stopped its threads."""
    if not signal.getitimer(signal.ITIMER_REAL)[0]:
        signal.setitimer(signal.ITIMER_REAL, seconds + 1)
