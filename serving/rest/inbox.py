"""Brings results from other threads to the event loop: a batch of them with one wake-up."""

import asyncio
import collections
import contextlib


class Inbox:
    """What other threads have finished for one event loop.

    `asyncio.wrap_future` wakes the loop for every future. The first wake-up of a batch lets the loop's thread
    take the interpreter's lock, for which the thread that delivers the rest of the batch then waits, while
    the model could run.

    Args:
        loop: asyncio.AbstractEventLoop.
    """

    def __init__(self, loop):
        self.loop = loop
        self._arrived = collections.deque()
        self._is_woken = False

    async def result(self, future):
        """Waits for a concurrent.futures.Future, and cancels it if the wait is cancelled.

        Returns:
            Its result.

        Raises:
            Exception: the future's.
        """
        waiter = self.loop.create_future()
        future.add_done_callback(lambda done: self._arrive(waiter, done))
        try:
            return await waiter
        except asyncio.CancelledError:
            future.cancel()
            raise

    def _arrive(self, waiter, future):
        """Called in the thread that finished the future."""
        self._arrived.append((waiter, future))
        if not self._is_woken:  # else the loop has yet to look, and finds this one too
            self._is_woken = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                self.loop.call_soon_threadsafe(self._open)

    def _open(self):
        self._is_woken = False  # first, so that what arrives from now on wakes the loop again
        while self._arrived:
            waiter, future = self._arrived.popleft()
            if waiter.done():  # cancelled
                continue
            if future.cancelled():
                waiter.cancel()
            elif error := future.exception():
                waiter.set_exception(error)
            else:
                waiter.set_result(future.result())
