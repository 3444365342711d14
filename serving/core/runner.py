"""Runs computations in threads, one by one; `convnlp.serving.core.batching` runs several as one."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from convnlp.serving.core.cancellation import CancellableFuture, Cancellation, submit
from convnlp.serving.core.limits import Gate


class Runner:
    """Runs each computation by itself.

    Args:
        num_threads: int. How many may run at the same time.
        queue_length: int. How many may wait for a thread; further ones are refused.

    Attributes:
        num_runs: int. The most that run at the same time.
    """

    def __init__(self, num_threads, queue_length):
        self.num_runs = num_threads
        self._pool = ThreadPoolExecutor(num_threads, "model")
        self._gate = Gate(num_threads + queue_length, "requests wait for a model (--max_queue_length)")

    def submit(self, servable, feeds, fetches):
        """Runs a model's graph.

        Args:
            servable: `Servable`.
            feeds: dict of str to array. Values by the names of tensors.
            fetches: tuple of str. The names of tensors.

        Returns:
            `CancellableFuture` of the list of fetched values. If it is cancelled before its turn, it never
            runs.

        Raises:
            ServingError: if too many computations are waiting already.
        """
        self._gate.enter()
        future = CancellableFuture()
        future.add_done_callback(lambda _: self._gate.leave())
        queued = submit(self._pool, partial(_run, future, servable, feeds, fetches))
        future.add_done_callback(lambda _: queued.cancel())
        queued.add_done_callback(lambda done: done.cancelled() and future.cancel())  # after `close`
        return future

    def close(self):
        """Ends the threads once they have nothing to do."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _run(future, servable, feeds, fetches):
    if not future.set_running_or_notify_cancel():
        return
    try:
        values = servable.run(feeds, fetches, Cancellation([future]))
    except BaseException as error:  # any error must reach whoever waits
        future.set_exception(error)
    else:
        future.set_result(values)
