"""Which worker the others wait for.

Workers that train together are as fast as the slowest of them. In every step each one waits at the first sum
over all workers until the last one has its part; the worker that hardly waits there, while all others wait
for a good part of the time, is the slow one. What the others wait for it later in the step comes on top.
"""

WINDOW_SECONDS = 10.0  # of training
NUM_WINDOWS = 2  # in a row, before a worker is named; a power of two
SHARE = 0.15  # of the time, that each of the others waits at least
RATIO = (
    2  # at least so many times as long as the slow worker does itself, which may be stopped while it waits
)


class Stragglers:
    """Adds up how long each worker has waited, and names one that stays behind.

    Args:
        num_workers: int.
        window_seconds: float. Defaults to `WINDOW_SECONDS`.
    """

    def __init__(self, num_workers, window_seconds=WINDOW_SECONDS):
        self._window_seconds = window_seconds
        self._waited, self._seconds = [0.0] * num_workers, 0.0
        self._slow, self._count = None, 0

    def update(self, waited, seconds):
        """Takes in some steps.

        Args:
            waited: list of floats, seconds for which each worker has waited in them.
            seconds: float, how long they took.

        Returns:
            A sentence on a worker that has turned out to be slow, or None. While it stays slow, there is
            another one after twice the time, and so on.
        """
        self._waited = [a + b for a, b in zip(self._waited, waited, strict=True)]
        self._seconds += seconds
        if self._seconds < self._window_seconds or len(waited) < 2:
            return None
        shares = [value / self._seconds for value in self._waited]
        seconds, self._waited, self._seconds = self._seconds, [0.0] * len(waited), 0.0
        own, least, *_ = sorted(shares)
        slow = shares.index(own) if least >= max(SHARE, RATIO * own) else None
        self._count = self._count + 1 if slow == self._slow else 1
        self._slow = slow
        if slow is None or self._count < NUM_WINDOWS or self._count & (self._count - 1):
            return None
        return (
            f"worker {slow} is slow: each of the others waited for it for more than {least:.0%} of the last "
            f"{seconds:.0f} s"
        )
