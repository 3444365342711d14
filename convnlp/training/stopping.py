"""What asks a run to stop: signals, to this worker or another one."""

import contextlib
import signal
import threading

from convnlp.training import heartbeat

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StoppedError(Exception):
    """A signal asked the run to stop; its checkpoint is written.

    Args:
        signum: int, the signal.
        step: int.
        worker: int, the worker that it was sent to. Default None: this one.
    """

    def __init__(self, signum, step, worker=None):
        name = signal.Signals(signum).name
        by = name if worker is None else f"{name} to worker {worker}"
        super().__init__(
            f"stopped by {by} at step {step}, checkpoint saved; the same command continues the run"
        )
        self.exit_code = 128 + signum  # what a shell reports of a process that the signal has ended


def stopped(received, of_workers, step):
    """The `StoppedError` of this process; `of_workers` has that of each worker, 0 for none."""
    worker = next(index for index, signum in enumerate(of_workers) if signum)
    heartbeat.mark(stopped=worker)
    if received:
        return StoppedError(received[0], step)
    return StoppedError(int(of_workers[worker]), step, worker)


@contextlib.contextmanager
def signals():
    """Collects the signals that end a process instead of dying of them; a second one ends it as usual.

    One that is ignored stays so: nohup ignores SIGHUP, and a script's background jobs SIGINT.
    """
    received, previous = [], {}

    def receive(signum, frame):
        received.append(signum)
        for each, handler in previous.items():
            signal.signal(each, handler)

    if threading.current_thread() is threading.main_thread():  # Python lets no other thread set handlers
        for each in _SIGNALS:
            if signal.getsignal(each) not in (signal.SIG_IGN, None):
                previous[each] = signal.signal(each, receive)
    try:
        yield received
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)
