"""Times several candidates in one run, one after the other, round after round.

Whatever slows the machine for a while then slows all of them. What a candidate leaves behind slows the next
one: after PyTorch a TensorFlow kernel of 2.4 ms takes 7 ms, then 5, and 30 ms later 2.4 again. So each sample
is preceded by calls that do not count. Samples taken while other processes were busy are dropped, as long as
quiet ones can be had.
"""

import dataclasses
import os
import statistics
import time

# A sample counts as disturbed if other processes had more than this share of all cores. The kernel counts in
# hundredths of a second, so that a sample of 0.1 s on two cores has an error of a tenth.
MAX_OTHERS = 0.15
LONG = 5  # A call that takes as long as five samples is not worth another one that does not count.


@dataclasses.dataclass
class Timing:
    """Seconds a call of one candidate.

    Args:
        samples: list of floats, the undisturbed samples; all of them if there were no undisturbed ones.
        disturbed: int. Number of samples during which other processes were busy.
        calls: int. Calls a sample.
        cpu_seconds: float. Median CPU time a call, of all threads.
    """

    samples: list
    disturbed: int
    calls: int
    cpu_seconds: float

    @property
    def median(self):
        """Median of the samples, seconds per call."""
        return statistics.median(self.samples)

    @property
    def spread(self):
        """Median absolute deviation from the median, seconds per call."""
        return statistics.median(abs(sample - self.median) for sample in self.samples)

    def summary(self, scale=1.0, digits=5):
        """Dict for the `detail` of a row; times are multiplied by `scale`."""
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
    """Times the candidates round-robin.

    Args:
        candidates: dict, name -> function without arguments that returns when its work is done (fetch a
            value, `.numpy()`, where it would return earlier).
        repeats: int. Undisturbed samples wanted of each. Defaults to `5`.
        warmup: int >= 1. Calls before the first sample (tracing, compilation, memory). Defaults to `2`.
        min_seconds: float. A sample is as many calls as take this long, at least one. Half as many before it,
            at least one unless it is long, do not count. Defaults to `0.1`.
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
    others = others or other_cpu_seconds
    calls, uncounted = {}, {}
    for name, call in candidates.items():
        for _ in range(warmup):
            started = time.perf_counter()
            call()
            seconds = time.perf_counter() - started
        calls[name] = max(1, int(min_seconds / max(seconds, 1e-9)))
        uncounted[name] = max(calls[name] // 2, int(seconds < LONG * min_seconds))
    quiet = {name: [] for name in candidates}
    disturbed = {name: [] for name in candidates}
    cpu = {name: [] for name in candidates}
    for _ in range(max_rounds or 3 * repeats):
        for name, call in candidates.items():
            if len(quiet[name]) >= repeats:
                continue
            for _ in range(uncounted[name]):
                call()
            cpu_before, others_before, started = time.process_time(), others(), time.perf_counter()
            for _ in range(calls[name]):
                call()
            seconds = time.perf_counter() - started
            share = (others() - others_before) / (seconds * os.cpu_count())
            cpu[name].append((time.process_time() - cpu_before) / calls[name])
            (disturbed if share > MAX_OTHERS else quiet)[name].append(seconds / calls[name])
    return {
        name: Timing(
            samples=quiet[name] or disturbed[name],
            disturbed=len(disturbed[name]),
            calls=calls[name],
            cpu_seconds=statistics.median(cpu[name]),
        )
        for name in candidates
    }


def other_cpu_seconds():
    """CPU seconds that processes other than this one, or other guests of the host, have used since boot.

    Returns:
        float; 0.0 where there is no /proc/stat, so that no sample counts as disturbed.
    """
    try:
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    except FileNotFoundError:
        return 0.0
    ticks = user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK") - time.process_time()
