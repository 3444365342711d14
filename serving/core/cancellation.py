"""Tells what runs that nobody waits for it any more."""

import threading
from concurrent.futures import Future

from convnlp.serving.core.errors import ServingError


class CancellableFuture(Future):
    """A Future of something that can be given up while it runs, too."""

    def __init__(self):
        super().__init__()
        self._is_abandoned = False
        self._callbacks = []

    def cancel(self):
        """As of a Future; what runs already is told, and ends with an error soon."""
        is_cancelled = super().cancel()
        with self._condition:
            callbacks, self._callbacks, self._is_abandoned = self._callbacks, [], True
        for callback in callbacks:
            callback(self)
        return is_cancelled

    def when_abandoned(self, callback):
        """Calls a function with the Future once somebody cancels it: at once if that was before."""
        with self._condition:
            if not self._is_abandoned:
                self._callbacks.append(callback)
                return
        callback(self)


class Cancellation:
    """Says whether anybody still waits for a run, which may be of several requests.

    Args:
        futures: list of `CancellableFuture`. Theirs, all of them running.
    """

    def __init__(self, futures):
        self._num_waiting = len(futures)
        self._stop = None
        self._lock = threading.Lock()
        for future in futures:
            future.when_abandoned(self._leave)

    def check(self):
        """Raises the error of a run that nobody waits for."""
        if not self._num_waiting:
            raise ServingError("CANCELLED", "The client has gone")

    def attach(self, stop):
        """Has a function called once nobody waits any more: at once if that is so, never after `detach`."""
        with self._lock:
            self._stop = stop
            if not self._num_waiting:
                stop()

    def detach(self):
        """Ends what `attach` began; what it may call has returned then."""
        with self._lock:
            self._stop = None

    def _leave(self, _):
        with self._lock:
            self._num_waiting -= 1
            if not self._num_waiting and self._stop:
                self._stop()
