"""Threads for what would hold up the event loop, on which all requests wait."""

from concurrent.futures import ThreadPoolExecutor

_LARGE_BYTES = 2**20


class Aside:
    """Runs functions in threads: those on much data one after the other, so that the others find a thread."""

    def __init__(self):
        self._small = ThreadPoolExecutor(2, "aside")
        self._large = ThreadPoolExecutor(1, "aside-large")

    def submit(self, function, size):
        """Calls a function.

        Args:
            function: Callable without arguments.
            size: int. How many bytes it is to work on.

        Returns:
            concurrent.futures.Future of what it returns. Cancelled before its turn, it is never called.
        """
        return (self._large if size > _LARGE_BYTES else self._small).submit(function)
