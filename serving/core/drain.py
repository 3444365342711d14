"""Ends the process some time after SIGTERM, whatever it is doing then."""

import atexit
import os
import signal
import socket
import sys
import threading
import time

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def drain(seconds, begin=lambda: None):
    """From now on, SIGTERM and Ctrl-C leave what runs so much time, then the process ends.

    Handlers of these signals, which are to end it before, are called as always. But Python calls them only
    between two steps of the main thread, and ends only when no thread runs: so this happens in a thread of
    its own, woken by the signal itself. To be called in the main thread, once there are handlers.

    Args:
        seconds: float.
        begin: Callable. Called when the signal comes, in a thread of its own, since it may take its time.
    """
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    signalled = threading.Event()
    # Both are started here: from Python 3.12 on, none can be once the main thread has come to its end.
    threading.Thread(target=lambda: signalled.wait() and begin(), name="drain-begin", daemon=True).start()
    # The thread keeps the sender, too, which would be closed without.
    waiting = (receiver, sender, seconds, signalled)
    threading.Thread(target=_wait, args=waiting, name="drain", daemon=True).start()
    atexit.register(_limit, seconds)  # Python may end before that thread has had its turn


def _wait(receiver, sender, seconds, signalled):
    while (number := receiver.recv(1)[0]) not in SIGNALS:
        pass
    name, deadline = signal.Signals(number).name, time.monotonic() + seconds
    _limit(seconds)
    signalled.set()
    time.sleep(max(deadline - time.monotonic(), 0))
    text = f"{name}: not at an end after {seconds:g} s (--drain_timeout_in_ms): what runs is given up"
    print(text, file=sys.stderr, flush=True)
    os._exit(1)


def _limit(seconds):
    """Where Python is at its end, and its threads are dead, the system ends what remains."""
    if not signal.getitimer(signal.ITIMER_REAL)[0]:
        signal.setitimer(signal.ITIMER_REAL, seconds + 1)
