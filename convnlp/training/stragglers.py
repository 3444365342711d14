"""Which worker the others wait for.

Workers that train together are as fast as the slowest of them. In every step each one waits at the sums over
all workers until the last one has its part. Measured are the sums of the metrics, and of the gradients where
they are clipped; the rest of the time a worker is taken to work itself. One that works longer than any other
for the same steps, while all others wait, is the slow one.
"""

WINDOW_SECONDS = 10.0  # of training
NUM_WINDOWS = 2  # in a row, before a worker is named; a power of two
SHARE = 0.15  # of the time, that each of the others waits at least
RATIO = 1.2  # of the time that a slow worker works to that of the next one


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
        shares = [min(value / self._seconds, 1.0) for value in self._waited]
        seconds, self._waited, self._seconds = self._seconds, [0.0] * len(waited), 0.0
        own, least, *_ = sorted(shares)
        is_slow = least >= SHARE and 1 - own >= RATIO * (1 - least)
        slow = shares.index(own) if is_slow else None
        self._count = self._count + 1 if slow == self._slow else 1
        self._slow = slow
        if slow is None or self._count < NUM_WINDOWS or self._count & (self._count - 1):
            return None
        return (
            f"worker {slow} is slow: for its part of the last steps it took {1 - own:.0%} of "
            f"{seconds:.0f} s, and each of the others at most {1 - least:.0%}, to wait for the rest"
        )
