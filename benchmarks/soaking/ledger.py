"""Which versions may answer at which time, and what came of the requests: shared by all threads."""

import collections
import math
import threading
import time

from benchmarks.soaking import versions


class Ledger:
    """The times of the versions, the counts of the answers, and what was not as it has to be.

    Attributes:
        counts: dict of str to int: "right", or "refused" and its status, by what was asked.
        problems: list of str.
    """

    def __init__(self):
        self.counts = collections.Counter()
        self.problems = []
        self._times = {}  # version -> list of [allowed from, until]
        self._crowds = []  # list of [from, until]: when requests may be refused
        self._lock = threading.Lock()

    def allow(self, version):
        """From now on a version may answer; before the server can know it."""
        with self._lock:
            self._times.setdefault(version, []).append([time.monotonic(), math.inf])

    def end(self, version):
        """To what is asked from now on, a version may not answer any more."""
        with self._lock:
            self._times[version][-1][1] = time.monotonic()

    def may_answer(self, sent, received):
        """The versions that may answer a request of this time."""
        with self._lock:
            return sorted(
                version
                for version, times in self._times.items()
                if any(start <= received and sent <= end for start, end in times)
            )

    def begin_crowd(self):
        """From now on requests may be refused, as more than may be are under way."""
        with self._lock:
            self._crowds.append([time.monotonic(), math.inf])

    def end_crowd(self):
        """Nothing that is asked from now on may be refused."""
        with self._lock:
            self._crowds[-1][1] = time.monotonic()

    def may_refuse(self, sent, received):
        """Whether a request of this time may be refused."""
        with self._lock:
            return any(start <= received and sent <= end for start, end in self._crowds)

    def note(self, text):
        """Notes a problem."""
        with self._lock:
            self.problems.append(text)

    def count(self, kind):
        """Counts an answer."""
        with self._lock:
            self.counts[kind] += 1

    def check(self, who, xs, status, values, sent, received):
        """Notes what is wrong with an answer, and counts it.

        Args:
            who: str, who has asked.
            xs: list of float, what was asked.
            status: int or str, the status: 200 or "OK", 429, "UNAVAILABLE", ...
            values: list of float, the answer, or str, what was said in its place.
            sent: float, of `time.monotonic`.
            received: float.
        """
        if status in (200, "OK"):
            allowed = self.may_answer(sent, received)
            if any(values == [versions.answer(version, x) for x in xs] for version in allowed):
                self.count(f"{who}: right")
                return
            self.note(f"{who}: {str(values)[:200]} to {str(xs)[:200]}, when versions {allowed} may answer")
            self.count(f"{who}: wrong")
        elif status in (429, 503, "RESOURCE_EXHAUSTED", "UNAVAILABLE") and self.may_refuse(sent, received):
            self.count(f"{who}: refused, {status}")
        else:
            self.note(f"{who}: {status} {str(values)[:300]}")
            self.count(f"{who}: lost")
