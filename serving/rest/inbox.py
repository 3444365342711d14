"""Brings results from other threads to the event loop, a whole batch with one wake-up."""

import asyncio
import collections
import contextlib


class Inbox:
    """The results of other threads for one event loop.

    `asyncio.wrap_future` wakes the loop for every future. At the first wake-up of a batch, the loop's thread
    takes the interpreter's lock; the thread that has yet to deliver the rest of the batch then waits for the
    lock, though it could be running the model.

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
            The result of the future.

        Raises:
            Exception: the exception of the future.
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
        if not self._is_woken:  # otherwise the loop has yet to look, and will find this one too
            self._is_woken = True
            with contextlib.suppress(RuntimeError):  # if the loop is closed, nobody waits
                self.loop.call_soon_threadsafe(self._open)

    def _open(self):
        self._is_woken = False  # first, so that later arrivals wake the loop again
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
