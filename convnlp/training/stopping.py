"""Stops a run on a signal to this worker or another one."""

import contextlib
import signal
import threading

from convnlp.training import heartbeat

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StoppedError(Exception):
    """A signal asked the run to stop, and the run has written its checkpoint.

    Args:
        signum: int, the signal.
        step: int, the step of the checkpoint.
        worker: int, the worker that received the signal. Default None: this one.
    """

    def __init__(self, signum, step, worker=None):
        name = signal.Signals(signum).name
        by = name if worker is None else f"{name} to worker {worker}"
        super().__init__(
            f"stopped by {by} at step {step}, checkpoint saved; the same command continues the run"
        )
        self.exit_code = 128 + signum  # as a shell reports a process ended by a signal


def stopped(received, of_workers, step):
    """Returns the `StoppedError` of this process; `of_workers` has each worker's signal, 0 for none."""
    worker = next(index for index, signum in enumerate(of_workers) if signum)
    heartbeat.mark(stopped=worker)
    if received:
        return StoppedError(received[0], step)
    return StoppedError(int(of_workers[worker]), step, worker)


@contextlib.contextmanager
def signals():
    """Collects termination signals instead of ending the process; a second signal ends it as usual.

    Signals that are ignored stay ignored: nohup ignores SIGHUP, and background jobs of scripts ignore SIGINT.
    """
    received, previous = [], {}

    def receive(signum, frame):
        received.append(signum)
        for each, handler in previous.items():
            signal.signal(each, handler)

    if threading.current_thread() is threading.main_thread():  # only the main thread may set handlers
        for each in _SIGNALS:
            if signal.getsignal(each) not in (signal.SIG_IGN, None):
                previous[each] = signal.signal(each, receive)
    try:
        yield received
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)
