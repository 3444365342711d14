"""Threads for work that would hold up the event loop, and with it all requests."""

from concurrent.futures import ThreadPoolExecutor

from convnlp.serving.core import cancellation

_LARGE_BYTES = 2**20


class Aside:
    """Runs functions in threads: those on much data one by one, so that there are threads for the others."""

    def __init__(self):
        self._small = ThreadPoolExecutor(2, "aside")
        self._large = ThreadPoolExecutor(1, "aside-large")

    def submit(self, function, size):
        """Calls a function.

        Args:
            function: Callable without arguments.
            size: int. How many bytes the function works on.

        Returns:
            Future, as from `cancellation.submit`.
        """
        return cancellation.submit(self._large if size > _LARGE_BYTES else self._small, function)
