"""Which versions may answer at which time, and the results of all requests; shared by all threads."""

import collections
import math
import threading
import time

from benchmarks.soaking import versions


class Ledger:
    """The times of the versions, the counts of the answers, and everything unexpected.

    Attributes:
        counts: dict of str to int, the number of answers by client and result, such as "rest: right".
        problems: list of str.
    """

    def __init__(self):
        self.counts = collections.Counter()
        self.problems = []
        self._times = {}  # version -> list of [allowed from, until]
        self._crowds = []  # list of [from, until]: when requests may be refused
        self._lock = threading.Lock()

    def allow(self, version):
        """Allows a version to answer from now on. To be called before the server can know the version."""
        with self._lock:
            self._times.setdefault(version, []).append([time.monotonic(), math.inf])

    def end(self, version):
        """Forbids a version to answer requests that are sent from now on."""
        with self._lock:
            self._times[version][-1][1] = time.monotonic()

    def may_answer(self, sent, received):
        """Returns the versions that may answer a request sent and answered at these times."""
        with self._lock:
            return sorted(
                version
                for version, times in self._times.items()
                if any(start <= received and sent <= end for start, end in times)
            )

    def begin_crowd(self):
        """Allows requests to be refused from now on: there are more than the server may process at once."""
        with self._lock:
            self._crowds.append([time.monotonic(), math.inf])

    def end_crowd(self):
        """Forbids requests that are sent from now on to be refused."""
        with self._lock:
            self._crowds[-1][1] = time.monotonic()

    def may_refuse(self, sent, received):
        """Returns whether a request sent and answered at these times may be refused."""
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
        """Counts an answer, and notes what is wrong with it.

        Args:
            who: str, the client.
            xs: list of float, the numbers sent.
            status: int or str, the status: 200 or "OK", 429, "UNAVAILABLE", ...
            values: list of float, the answer, or str, the message in its place.
            sent: float, of `time.monotonic`.
            received: float, likewise.
        """
        if status in (200, "OK"):
            allowed = self.may_answer(sent, received)
            if any(values == [versions.answer(version, x) for x in xs] for version in allowed):
                self.count(f"{who}: right")
                return
            self.note(f"{who}: {str(values)[:200]} for {str(xs)[:200]}, while versions {allowed} may answer")
            self.count(f"{who}: wrong")
        elif status in (429, 503, "RESOURCE_EXHAUSTED", "UNAVAILABLE") and self.may_refuse(sent, received):
            self.count(f"{who}: refused, {status}")
        else:
            self.note(f"{who}: {status} {str(values)[:300]}")
            self.count(f"{who}: lost")
