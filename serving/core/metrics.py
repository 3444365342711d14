"""The metrics of the server, with TF Serving's names and in its Prometheus format.

The real server writes "/tensorflow/serving/request_count" as ":tensorflow:serving:request_count".
"""

import bisect
import re
import threading
import time

METRICS_PATH = "/monitoring/prometheus/metrics"  # unless a configuration says otherwise
# Further combinations of label values are counted without labels: clients must not be able to fill the
# memory.
_MAX_CELLS = 1000
_LATENCY_LIMITS = [10 * 1.8**power for power in range(33)]
_SIZE_LIMITS = [2.0**power for power in range(14)]


class Counter:
    """A number that only grows, for every combination of label values.

    Args:
        name: str. Such as "/tensorflow/serving/request_count".
        *labels: str. The names of the labels.
    """

    kind = "counter"

    def __init__(self, name, *labels):
        self._name = re.sub("[^a-zA-Z0-9_]", ":", name)
        self._labels = labels
        self._lock = threading.Lock()
        self._cells = {}

    def add(self, *values, by=1):
        """Adds to the number for these label values."""
        with self._lock:
            values = self._cell(values)
            self._cells[values] = self._cells.get(values, 0) + by

    def value(self, *values):
        """Returns the number for these label values."""
        return self._cells.get(values, 0)

    def lines(self):
        """Returns the lines of the page."""
        with self._lock:
            cells = dict(self._cells)
        if not cells:
            return []
        return [f"# TYPE {self._name} {self.kind}", *self._cell_lines(cells)]

    def _cell(self, values):
        known = values in self._cells or len(self._cells) < _MAX_CELLS
        return values if known else ("",) * len(values)

    def _cell_lines(self, cells):
        return [f"{self._name}{{{self._pairs(values)}}} {count}" for values, count in cells.items()]

    def _pairs(self, values):
        return ",".join(
            f'{label}="{_escaped(value)}"' for label, value in zip(self._labels, values, strict=True)
        )


class Histogram(Counter):
    """The distribution of values, for every combination of label values.

    Args:
        name: str.
        *labels: str. The names of the labels.
        limits: list of float. The upper limits of all buckets but the last, which has none.
    """

    kind = "histogram"

    def __init__(self, name, *labels, limits=_LATENCY_LIMITS):
        super().__init__(name, *labels)
        self._limits = limits

    def observe(self, value, *values):
        """Counts one value under these label values."""
        with self._lock:
            values = self._cell(values)
            cell = self._cells.get(values)
            if cell is None:
                cell = self._cells[values] = [0.0, *(0 for _ in self._limits), 0]
            cell[0] += value
            cell[1 + bisect.bisect_right(self._limits, value)] += 1

    def value(self, *values):
        """Returns how many values were counted under these label values."""
        return sum(self._cells.get(values, [0])[1:])

    def _cell_lines(self, cells):
        lines = []
        for values, (total, *counts) in cells.items():
            pairs = self._pairs(values)
            cumulative = 0
            limits = [*(f"{limit:.6g}" for limit in self._limits), "+Inf"]
            for limit, count in zip(limits, counts, strict=True):
                cumulative += count
                before = f"{pairs}," if pairs else ""
                lines.append(f'{self._name}_bucket{{{before}le="{limit}"}} {cumulative}')
            lines.append(f"{self._name}_sum{{{pairs}}} {total:.6g}")
            lines.append(f"{self._name}_count{{{pairs}}} {cumulative}")
        return lines


class Metrics:
    """Everything that one server counts; times are in microseconds."""

    def __init__(self):
        serving, saved_model = "/tensorflow/serving", "/tensorflow/cc/saved_model"
        batching = f"{serving}/batching_session"
        self.load_attempts = Counter(f"{saved_model}/load_attempt_count", "model_path", "status")
        self.load_latency = Counter(f"{saved_model}/load_latency", "model_path")
        self.queuing_latency = Histogram(f"{batching}/queuing_latency", "thread_pool_name")
        self.wrapped_runs = Counter(f"{batching}/wrapped_run_count")
        self.input_batch_size = Histogram(f"{batching}/input_batch_size", limits=_SIZE_LIMITS)
        self.processed_batch_size = Histogram(f"{batching}/processed_batch_size", limits=_SIZE_LIMITS)
        self.padding_size = Histogram(f"{batching}/padding_size", "execution_batch_size", limits=_SIZE_LIMITS)
        self.warmup_latency = Histogram(f"{serving}/model_warmup_latency", "model_path", "status")
        self.warmup_records = Counter(f"{serving}/model_warmup_records_read", "model_path", "status")
        self.request_count = Counter(f"{serving}/request_count", "model_name", "status")
        self.example_counts = Histogram(f"{serving}/request_example_counts", "model", limits=_SIZE_LIMITS)
        self.example_total = Counter(f"{serving}/request_example_count_total", "model")
        self.request_latency = Histogram(f"{serving}/request_latency", "model_name", "API", "entrypoint")
        self.runtime_latency = Histogram(f"{serving}/runtime_latency", "model_name", "API", "runtime")

    def page(self):
        """Returns the text of the page that Prometheus reads."""
        return "\n".join(line for metric in vars(self).values() for line in metric.lines()) + "\n"


def microseconds(since):
    """Returns the microseconds that have passed since a moment of the monotonic clock, as a float."""
    return (time.monotonic() - since) * 1e6


def _escaped(value):
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
