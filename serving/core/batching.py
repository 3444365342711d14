"""Runs the requests of several clients as one batch, by TF Serving's batching parameters.

A thread of the batcher takes the oldest batch that is full or has waited for `batch_timeout_micros`. While
all threads are busy, batches fill up; with a time-out of 0 nobody waits while one is free.

Departs from TF Serving where one client could spoil the answers of others: requests whose tensors differ in
shape or type never meet in one batch (there, the batch fails), and the requests of a batch that fails are run
again one by one, so that only the one to blame gets the error.
"""

import os
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np

from serving.core.errors import ServingError, invalid_argument


@dataclass(frozen=True)
class BatchingOptions:
    """TF Serving's BatchingParameters with its defaults.

    Args:
        max_batch_size: int. The most examples a batch, and a request unless large ones are split.
        batch_timeout_micros: int. How long a batch waits to be filled.
        max_enqueued_batches: int. How many batches of a kind may wait; the next request is refused.
        num_batch_threads: int. How many batches run at the same time.
        allowed_batch_sizes: tuple of int. If not empty, batches are padded to the next of these sizes.
        pad_variable_length_inputs: bool. Whether tensors of different lengths are padded to the longest.
        enable_large_batch_splitting: bool. Whether requests larger than a batch are split.
        max_execution_batch_size: int. The most examples a batch when requests are split.
    """

    max_batch_size: int = 1000
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 10
    num_batch_threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    allowed_batch_sizes: tuple = ()
    pad_variable_length_inputs: bool = False
    enable_large_batch_splitting: bool = False
    max_execution_batch_size: int = 1000

    def __post_init__(self):
        for name in ("max_batch_size", "max_enqueued_batches", "num_batch_threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be positive. Received: {name}={getattr(self, name)}")
        if self.batch_timeout_micros < 0:
            raise ValueError(
                "`batch_timeout_micros` must not be negative."
                f" Received: batch_timeout_micros={self.batch_timeout_micros}"
            )
        sizes = list(self.allowed_batch_sizes)
        if sizes and (sizes != sorted(set(sizes)) or sizes[-1] != self.batch_limit):
            raise ValueError(
                "`allowed_batch_sizes` must grow up to the largest batch."
                f" Received: allowed_batch_sizes={sizes}, largest batch={self.batch_limit}"
            )

    @property
    def batch_limit(self):
        """The most examples that run as one batch."""
        if self.enable_large_batch_splitting:
            return min(self.max_batch_size, self.max_execution_batch_size)
        return self.max_batch_size


@dataclass
class _Task:
    """The tensors of one request, and where its values go."""

    feeds: dict
    size: int
    future: Future = field(default_factory=Future)
    enqueued: float = field(default_factory=time.monotonic)


@dataclass(eq=False)
class _Batch:
    """Tasks that run together."""

    key: tuple
    servable: object
    fetches: tuple
    tasks: list = field(default_factory=list)
    size: int = 0
    created: float = field(default_factory=time.monotonic)


class Batcher:
    """Runs computations of the same kind together.

    Args:
        options: `BatchingOptions`.
        metrics: `Metrics`.
    """

    def __init__(self, options, metrics):
        self._options = options
        self._metrics = metrics
        self._timeout = options.batch_timeout_micros / 1e6
        self._changed = threading.Condition()
        self._waiting = []  # batches, oldest first
        self._open = {}  # the batch of each kind that still takes tasks
        self._closed = False
        for number in range(options.num_batch_threads):
            threading.Thread(target=self._work, name=f"batch-{number}", daemon=True).start()

    def submit(self, servable, feeds, fetches):
        """Adds a request to a batch; see `serving.core.runner.Runner.submit`.

        Raises:
            ServingError: if the tensors have no common batch axis, or there are too many of them.
        """
        size = _batch_size(feeds)
        limit = self._options.batch_limit
        if size > self._options.max_batch_size and not self._options.enable_large_batch_splitting:
            raise invalid_argument(f"Task size {size} is larger than maximum input batch size {limit}")
        self._metrics.input_batch_size.observe(size)
        if size <= limit:
            return self._enqueue(servable, feeds, fetches, size)
        parts = [
            {name: array[start : start + limit] for name, array in feeds.items()}
            for start in range(0, size, limit)
        ]
        return _joined([self._enqueue(servable, part, fetches, _batch_size(part)) for part in parts])

    def close(self):
        """Ends the threads once the batches that wait are done."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _enqueue(self, servable, feeds, fetches, size):
        task = _Task(feeds, size)
        padded = self._options.pad_variable_length_inputs
        kinds = tuple(
            (name, array.dtype, array.ndim if padded else array.shape[1:]) for name, array in feeds.items()
        )
        key = (servable, fetches, kinds)
        with self._changed:
            batch = self._open.get(key)
            if batch is None or batch.size + size > self._options.batch_limit or size == 0:
                waiting = sum(batch.key == key for batch in self._waiting)
                if waiting >= self._options.max_enqueued_batches:
                    raise ServingError(
                        "UNAVAILABLE",
                        "The batch scheduling queue to which this task was submitted is full; currently"
                        f" {waiting} batches enqueued and max_enqueued_batches is"
                        f" {self._options.max_enqueued_batches}",
                    )
                batch = _Batch(key, servable, fetches)
                self._waiting.append(batch)
                if size:  # nothing joins an empty task, whose outputs could not be told apart
                    self._open[key] = batch
            batch.tasks.append(task)
            batch.size += size
            if batch.size >= self._options.batch_limit:
                self._open.pop(key, None)
            self._changed.notify()
        return task.future

    def _work(self):
        while batch := self._next_batch():
            now = time.monotonic()
            tasks = [task for task in batch.tasks if task.future.set_running_or_notify_cancel()]
            for task in tasks:
                self._metrics.queuing_latency.observe((now - task.enqueued) * 1e6, "")
            if tasks:
                self._process(batch, tasks)
            del batch, tasks  # so that an idle thread holds no model

    def _next_batch(self):
        """Waits for a batch that is ready, oldest first; None when the batcher is closed."""
        with self._changed:
            while True:
                now = time.monotonic()
                for batch in self._waiting:
                    is_open = self._open.get(batch.key) is batch
                    if not is_open or now >= batch.created + self._timeout or self._closed:
                        self._waiting.remove(batch)
                        if is_open:
                            del self._open[batch.key]
                        return batch
                if self._closed:
                    return None
                oldest = self._waiting[0].created if self._waiting else None
                self._changed.wait(None if oldest is None else oldest + self._timeout - now)

    def _process(self, batch, tasks):
        try:
            results = self._run(batch, tasks)
        except Exception as error:
            if len(tasks) == 1 or getattr(error, "code", None) == "DEADLINE_EXCEEDED":
                for task in tasks:
                    task.future.set_exception(error)
            else:
                for task in tasks:
                    self._process(batch, [task])
            return
        for task, values in zip(tasks, results, strict=True):
            task.future.set_result(values)

    def _run(self, batch, tasks):
        """Runs tasks as one and returns the list of values of each."""
        size = sum(task.size for task in tasks)
        allowed = (allowed for allowed in self._options.allowed_batch_sizes if allowed >= size)
        padding = next(allowed, size) - size
        self._metrics.wrapped_runs.add()
        self._metrics.processed_batch_size.observe(size + padding)
        self._metrics.padding_size.observe(padding, str(size + padding))
        feeds = tasks[0].feeds
        if len(tasks) > 1 or padding:
            feeds = {name: _merged([task.feeds[name] for task in tasks], padding) for name in feeds}
        merged = batch.servable.run(feeds, batch.fetches)
        for array in merged:
            if array.ndim == 0:
                raise ServingError("FAILED_PRECONDITION", "Batched output tensor has 0 dimensions")
            if len(array) != size + padding:
                raise ServingError(
                    "FAILED_PRECONDITION",
                    "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes"
                    " of the input tensors",
                )
        results, start = [], 0
        for task in tasks:
            results.append([array[start : start + task.size] for array in merged])
            start += task.size
        return results


def _batch_size(feeds):
    if not feeds:
        raise invalid_argument("Batching Run() must have at least one input tensor")
    if any(array.ndim == 0 for array in feeds.values()):
        raise invalid_argument("Batching Run() input tensors must have at least one dimension")
    size, *others = {len(array) for array in feeds.values()}
    if others:
        raise invalid_argument("Batching Run() input tensors must have equal 0th-dimension size")
    return size


def _merged(arrays, padding):
    """Joins the arrays of several tasks; rows and batch are padded with values that are there already."""
    longest = tuple(max(sizes) for sizes in zip(*(array.shape[1:] for array in arrays), strict=True))
    arrays = [array if array.shape[1:] == longest else _padded(array, longest) for array in arrays]
    return np.concatenate([*arrays, *[arrays[-1][:1]] * padding])


def _padded(array, longest):
    """Fills rows up with the array's first value, as TF Serving does."""
    if not array.size:
        raise invalid_argument("Got empty tensor in batch of non-empty tensors.")
    padded = np.full((len(array), *longest), array.reshape(-1)[0], array.dtype)
    padded[tuple(slice(size) for size in array.shape)] = array
    return padded


def _joined(futures):
    """Returns the future of all parts' values, one behind the other."""
    joined = Future()
    joined.set_running_or_notify_cancel()
    remaining = [len(futures)]
    lock = threading.Lock()

    def done(_):
        with lock:
            remaining[0] -= 1
            if remaining[0]:
                return
        error = next((future.exception() for future in futures if future.exception()), None)
        if error:
            joined.set_exception(error)
        else:
            parts = zip(*(future.result() for future in futures), strict=True)
            joined.set_result([np.concatenate(values) for values in parts])

    for future in futures:
        future.add_done_callback(done)
    return joined
