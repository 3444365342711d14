"""A step of data-parallel training on N workers: computation, and the exchange that is not hidden.

    T(N)     = C(rows) + max(0, E(N) - h)
    C(rows)  = a + b rows                                   what a worker computes for its rows
    E(N)     = 2 (N - 1) / N  G / r  +  k hops l            a ring all-reduce of the gradients

with G the bytes of the gradient, r what a worker sends per second, l the latency of a hop, k the number of
all-reduces per step, 2 (N - 1) hops in a ring, and h the time behind which the exchange can hide: none, or
that of the backward pass, two thirds of b rows.

Source of E: Patarasuk and Yuan, 2009, https://doi.org/10.1016/j.jpdc.2008.09.002. Nothing is measured here.
"""

import dataclasses

BACKWARD_SHARE = 2 / 3  # of the operations on rows: two per multiply-add forward, four backward


@dataclasses.dataclass(frozen=True)
class Computation:
    """What one worker computes in a step, without any exchange.

    Args:
        fixed_seconds: float, the part that does not depend on its rows: clipping, optimizer.
        seconds_per_row: float.
    """

    fixed_seconds: float
    seconds_per_row: float

    def seconds(self, rows):
        """Returns the time of a step with `rows` rows, a float."""
        return self.fixed_seconds + rows * self.seconds_per_row

    def backward_seconds(self, rows):
        """Returns the time of the backward pass for `rows` rows, a float."""
        return BACKWARD_SHARE * rows * self.seconds_per_row

    def scaled(self, parameters, multiply_adds):
        """Returns that of another model, given how many times as many parameters and multiply-adds it has.

        Example:
        >>> Computation(0.25, 2.0).scaled(parameters=4.0, multiply_adds=10.0)
        Computation(fixed_seconds=1.0, seconds_per_row=20.0)
        """
        return Computation(parameters * self.fixed_seconds, multiply_adds * self.seconds_per_row)


def line_through(points):
    """Returns the `Computation` closest to the measurements by least squares; neither part is below 0.

    Args:
        points: list of (rows, seconds).

    Example:
    >>> line_through([(2, 1.5), (4, 2.5), (6, 3.5)])
    Computation(fixed_seconds=0.5, seconds_per_row=0.5)
    """
    mean_rows, mean_seconds = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((rows - mean_rows) ** 2 for rows, _ in points)
    together = sum((rows - mean_rows) * (seconds - mean_seconds) for rows, seconds in points)
    slope = together / spread if spread else 0.0
    fixed = mean_seconds - slope * mean_rows
    if fixed < 0 or not spread:  # then all of it is assumed to grow with the rows
        return Computation(
            0.0,
            sum(rows * seconds for rows, seconds in points) / sum(rows**2 for rows, _ in points),
        )
    return Computation(fixed, slope) if slope > 0 else Computation(mean_seconds, 0.0)


def ring_seconds(num_bytes, num_workers, bytes_per_second, hop_seconds=0.0, num_hops=None, reductions=1):
    """Returns the time of all-reduces of `num_bytes` in total over a ring: E(N) above.

    Args:
        num_bytes: float, what every worker has.
        num_workers: int >= 1.
        bytes_per_second: float, what a worker sends, and receives at the same time.
        hop_seconds: float, the latency of one hop.
        num_hops: int. Default None: 2 (N - 1), those of a ring.
        reductions: int, the number of all-reduces for these bytes, each with all hops.

    Example:
    >>> ring_seconds(300.0, 3, 100.0, hop_seconds=0.5)
    6.0
    """
    if num_workers == 1:
        return 0.0
    hops = 2 * (num_workers - 1) if num_hops is None else num_hops
    moved = 2 * (num_workers - 1) / num_workers * num_bytes
    return moved / bytes_per_second + reductions * hops * hop_seconds


def step_seconds(compute_seconds, exchange_seconds, hidden_seconds=0.0):
    """Returns T(N) above.

    Example:
    >>> step_seconds(3.0, 2.5), step_seconds(3.0, 2.5, hidden_seconds=2.0)
    (5.5, 3.5)
    """
    return compute_seconds + max(0.0, exchange_seconds - hidden_seconds)


def weak_efficiency(alone_seconds, seconds):
    """Returns the efficiency of N workers with as many rows each as one alone: its time over theirs.

    Example:
    >>> weak_efficiency(2.0, 2.5)
    0.8
    """
    return alone_seconds / seconds


def strong_efficiency(alone_seconds, seconds, num_workers):
    """Returns the efficiency of N workers that share the rows of one: the share of an Nth of its time.

    Example:
    >>> strong_efficiency(2.0, 0.625, 4)
    0.8
    """
    return alone_seconds / (num_workers * seconds)
