"""Times several candidates in one run, in turns, round after round.

Whatever slows down the machine for a while then affects all of them. A candidate can slow down the next
one: right after PyTorch, a TensorFlow kernel of 2.4 ms takes 7 ms, then 5, and 30 ms later 2.4 again. So
each sample is preceded by calls that do not count. Samples taken while other processes were busy are
dropped if there are undisturbed ones.
"""

import dataclasses
import os
import statistics
import time

from benchmarks import processes

# A sample counts as disturbed if other processes used more than this share of all cores. The kernel counts
# in hundredths of a second, so a sample of 0.1 s on two cores has an error of a tenth.
MAX_OTHERS = 0.15
LONG = 5  # A call that takes as long as five samples is not preceded by one that does not count.


@dataclasses.dataclass
class Timing:
    """The seconds per call of one candidate.

    Args:
        samples: list of floats, the undisturbed samples; all of them if there were no undisturbed ones.
        disturbed: int. Number of samples during which other processes were busy.
        calls: int. Calls per sample.
        cpu_seconds: float. Median CPU time per call, of all threads.
    """

    samples: list
    disturbed: int
    calls: int
    cpu_seconds: float

    @property
    def median(self):
        """The median of the samples, in seconds per call."""
        return statistics.median(self.samples)

    @property
    def lower_quartile(self):
        """The lower quartile of the samples, in seconds per call."""
        return (
            min(self.samples)
            if len(self.samples) < 2
            else statistics.quantiles(self.samples, n=4, method="inclusive")[0]
        )

    @property
    def spread(self):
        """The median absolute deviation from the median, in seconds per call."""
        return statistics.median(abs(sample - self.median) for sample in self.samples)

    def summary(self, scale=1.0, digits=5):
        """Returns a dict for the `detail` of a row; times are multiplied by `scale`."""
        return {
            "median": _round(self.median * scale, digits),
            "spread": _round(self.spread * scale, digits),
            "samples": [_round(sample * scale, digits) for sample in self.samples],
            "disturbed": self.disturbed,
            "calls_a_sample": self.calls,
            "cpu": _round(self.cpu_seconds * scale, digits),
        }


def _round(value, digits):
    return float(f"{value:.{digits}g}")


def interleaved(candidates, repeats=5, warmup=2, min_seconds=0.1, max_rounds=None, others=None):
    """Times the candidates in turns.

    Args:
        candidates: dict, name -> function without arguments that returns when its work is done; if it would
            return earlier, fetch a value with `.numpy()`.
        repeats: int. Number of undisturbed samples to take of each. Defaults to `5`.
        warmup: int >= 1. Calls before the first sample (tracing, compilation, memory). Defaults to `2`.
        min_seconds: float. A sample is as many calls as take this long, at least one. Before it come half
            as many calls that do not count, at least one unless a call is long. Defaults to `0.1`.
        max_rounds: int. When to give up waiting for a quiet machine. Defaults to `3 * repeats`.
        others: function that returns the CPU seconds used so far by other processes. Defaults to
            `other_cpu_seconds`.

    Returns:
        dict, name -> `Timing`.

    Example:
    >>> work = {"sum": lambda: sum(range(1000)), "max": lambda: max(range(1000))}
    >>> timings = interleaved(work, repeats=2, min_seconds=0.01)
    >>> [name for name, timing in timings.items() if timing.median > 0]
    ['sum', 'max']
    """
    samplers = {name: Sampler(call, min_seconds, others) for name, call in candidates.items()}
    for sampler in samplers.values():
        sampler.warm_up(warmup)
    return in_turns(samplers, repeats, max_rounds)


@dataclasses.dataclass(frozen=True)
class Sample:
    """One sample of a candidate.

    Args:
        seconds: float, per call.
        cpu_seconds: float, per call, of all threads.
        share: float. Share of all cores that other processes used meanwhile.
        calls: int.
    """

    seconds: float
    cpu_seconds: float
    share: float
    calls: int


class Sampler:
    """Takes samples of one candidate; arguments as for `interleaved`."""

    def __init__(self, call, min_seconds=0.1, others=None):
        self._call, self._min_seconds = call, min_seconds
        self._others = others or other_cpu_seconds

    def warm_up(self, times=2):
        """Calls the candidate a few times, and determines the number of calls per sample."""
        for _ in range(times):
            started = time.perf_counter()
            self._call()
            seconds = time.perf_counter() - started
        self._calls = max(1, int(self._min_seconds / max(seconds, 1e-9)))
        self._uncounted = max(self._calls // 2, int(seconds < LONG * self._min_seconds))

    def sample(self):
        """Returns a `Sample`, after the calls that do not count."""
        for _ in range(self._uncounted):
            self._call()
        cpu_before, others_before, started = time.process_time(), self._others(), time.perf_counter()
        for _ in range(self._calls):
            self._call()
        seconds = time.perf_counter() - started
        share = (self._others() - others_before) / (seconds * os.cpu_count())
        cpu_seconds = (time.process_time() - cpu_before) / self._calls
        return Sample(seconds / self._calls, cpu_seconds, share, self._calls)


def in_turns(samplers, repeats, max_rounds=None):
    """Takes a sample of each, round after round, until all have enough; see `interleaved`.

    Args:
        samplers: dict, name -> object with `sample()`, such as a warmed-up `Sampler`.
        repeats: int.
        max_rounds: int.

    Returns:
        dict, name -> `Timing`.
    """
    quiet = {name: [] for name in samplers}
    disturbed = {name: [] for name in samplers}
    for _ in range(max_rounds or 3 * repeats):
        for name, sampler in samplers.items():
            if len(quiet[name]) < repeats:
                sample = sampler.sample()
                (disturbed if sample.share > MAX_OTHERS else quiet)[name].append(sample)
    return {name: _timing(quiet[name], disturbed[name]) for name in samplers}


def _timing(quiet, disturbed):
    return Timing(
        samples=[sample.seconds for sample in quiet or disturbed],
        disturbed=len(disturbed),
        calls=(quiet or disturbed)[0].calls,
        cpu_seconds=statistics.median(sample.cpu_seconds for sample in quiet + disturbed),
    )


def other_cpu_seconds():
    """Counts the CPU seconds used since boot by all other processes, and by other guests of the host.

    Returns:
        float; 0.0 if there is no /proc/stat, so that no sample counts as disturbed.
    """
    try:
        return processes.machine_cpu_seconds() - time.process_time()
    except FileNotFoundError:
        return 0.0
