"""Joins the answers to the parts of a request that is larger than a batch."""

import threading
from concurrent.futures import Future

import numpy as np

from convnlp.serving.core.errors import ServingError


class Joined(Future):
    """The values of all parts of a request, joined in order; cancelling it cancels all parts.

    Args:
        parts: list of `CancellableFuture`.
    """

    def __init__(self, parts):
        super().__init__()
        self._parts = parts
        self._num_missing = len(parts)
        self._is_decided = False
        self._count_lock = threading.Lock()
        for part in parts:
            part.add_done_callback(self._arrived)

    def cancel(self):
        """Like `Future.cancel`."""
        if not super().cancel():
            return False
        for part in self._parts:
            part.cancel()
        return True

    def _arrived(self, part):
        """Called when a part is done; the last part, or the first that fails, completes the request."""
        failed = part.cancelled() or part.exception() is not None
        with self._count_lock:
            self._num_missing -= 1
            if self._is_decided or (self._num_missing and not failed):
                return
            self._is_decided = True
        if not self.set_running_or_notify_cancel():
            return
        try:
            if failed:
                for other in self._parts:
                    other.cancel()
                raise part.exception()
            values = zip(*(each.result() for each in self._parts), strict=True)
            self.set_result([_concatenated(arrays) for arrays in values])
        except Exception as error:  # any error must reach whoever waits
            self.set_exception(error)


def _concatenated(arrays):
    """Returns the values of the parts of a request as one array."""
    rows = {array.shape[1:] for array in arrays}
    if len(rows) > 1:
        shapes = " and ".join(sorted({str(list(row)) for row in rows})[:2])
        raise ServingError(
            "FAILED_PRECONDITION",
            "The parts of a split request cannot be joined: an output of the model has rows of the shapes"
            f" {shapes}. The size of an output must not depend on its batch; otherwise a request must not be"
            " larger than max_execution_batch_size",
        )
    return np.concatenate(arrays)
