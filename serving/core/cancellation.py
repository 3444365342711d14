"""Tells a computation, waiting or running, that nobody waits for it any more."""

import threading
from concurrent.futures import Future

from convnlp.serving.core.errors import ServingError


class CancellableFuture(Future):
    """A Future of something that can be given up even while it runs."""

    def __init__(self):
        super().__init__()
        self._is_abandoned = False
        self._callbacks = []

    def cancel(self):
        """Like `Future.cancel`; something that is already running is told, and soon ends with an error."""
        is_cancelled = super().cancel()
        with self._condition:
            callbacks, self._callbacks, self._is_abandoned = self._callbacks, [], True
        for callback in callbacks:
            callback(self)
        return is_cancelled

    def when_abandoned(self, callback):
        """Calls a function with the Future when somebody cancels it, or at once if that has happened."""
        with self._condition:
            if not self._is_abandoned:
                self._callbacks.append(callback)
                return
        callback(self)


def submit(pool, function):
    """Calls a function in a thread of a pool.

    Args:
        pool: ThreadPoolExecutor.
        function: Callable without arguments.

    Returns:
        Future of its result. If it is cancelled before its turn, the function is not called, and what it
        holds, such as a request, is freed at once. (The pool alone would keep it until its turn.)
    """
    call = [function]
    future = pool.submit(lambda: call.pop()())
    future.add_done_callback(lambda _: call.clear())
    return future


class Cancellation:
    """Says whether anybody still waits for a run, which may serve several requests.

    Args:
        futures: list of `CancellableFuture`. The futures of these requests, all of them running.
    """

    def __init__(self, futures):
        self._num_waiting = len(futures)
        self._stop = None
        self._lock = threading.Lock()
        for future in futures:
            future.when_abandoned(self._leave)

    def check(self):
        """Raises `ServingError` if nobody waits for the run any more."""
        if not self._num_waiting:
            raise ServingError("CANCELLED", "The client has gone")

    def attach(self, stop):
        """Has a function called when nobody waits any more, perhaps at once, but never after `detach`."""
        with self._lock:
            self._stop = stop
            if not self._num_waiting:
                stop()

    def detach(self):
        """Undoes `attach`; if the function was called, it has returned by then."""
        with self._lock:
            self._stop = None

    def _leave(self, _):
        with self._lock:
            self._num_waiting -= 1
            if not self._num_waiting and self._stop:
                self._stop()
