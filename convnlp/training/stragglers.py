"""Finds the worker that the others wait for.

Workers that train together are as fast as the slowest of them. In every step, each waits at the sums over all
workers until the last one has contributed its part. The waiting is measured at the sums of the metrics and,
if gradients are clipped, of the gradients; the rest of the time counts as work. A worker that works longer
than any other for the same steps, while all others wait, is the slow one.
"""

WINDOW_SECONDS = 10.0  # of training
NUM_WINDOWS = 2  # consecutive windows before a worker is named; a power of two
# Minimum ratio of the slow worker's working time to that of the next, which then waits a sixth of the time.
RATIO = 1.2


class Stragglers:
    """Adds up how long each worker has waited, and names one that is too slow.

    Args:
        num_workers: int.
        window_seconds: float. Defaults to `WINDOW_SECONDS`.
    """

    def __init__(self, num_workers, window_seconds=WINDOW_SECONDS):
        self._window_seconds = window_seconds
        self._waited, self._seconds = [0.0] * num_workers, 0.0
        self._slow, self._count = None, 0

    def update(self, waited, seconds):
        """Records some steps.

        Args:
            waited: list of floats, seconds for which each worker waited during these steps.
            seconds: float, how long the steps took.

        Returns:
            A string about a worker that has proved slow, or None. If it stays slow, the next one follows
            after twice the time, and so on.
        """
        self._waited = [a + b for a, b in zip(self._waited, waited, strict=True)]
        self._seconds += seconds
        if self._seconds < self._window_seconds or len(waited) < 2:
            return None
        shares = [min(value / self._seconds, 1.0) for value in self._waited]
        seconds, self._waited, self._seconds = self._seconds, [0.0] * len(waited), 0.0
        own, least, *_ = sorted(shares)
        is_slow = 1 - own >= RATIO * (1 - least)
        slow = shares.index(own) if is_slow else None
        self._count = self._count + 1 if slow == self._slow else 1
        self._slow = slow
        if slow is None or self._count < NUM_WINDOWS or self._count & (self._count - 1):
            return None
        return (
            f"worker {slow} is slow: it worked for {1 - own:.0%} of the last {seconds:.0f} s, each of the "
            f"others for at most {1 - least:.0%}; they waited for it"
        )
