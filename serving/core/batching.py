"""Runs the requests of several clients as one batch, with TF Serving's batching parameters.

Every signature of a model has its own queue. A thread of the batcher takes the oldest batch that is full or
has waited for `batch_timeout_micros`, from the queue that has waited longest for its turn; so slow requests
to one signature do not block the others. While all threads are busy, batches fill up; with a time-out of 0,
no request waits while a thread is free.

This departs from TF Serving where one client could spoil the answers of others. Requests whose tensors differ
in shape or type never share a batch (in TF Serving the batch fails). If a batch fails, its requests run again
one by one, so that only the faulty one gets the error. A request that nobody waits for any more is removed
from its batch, and a running batch is stopped once nobody waits for any of its requests. And a request that
an idle server can run at once is never refused, whatever `max_enqueued_batches` is.
"""

import itertools
import math
import os
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from convnlp.serving.core.cancellation import CancellableFuture, Cancellation
from convnlp.serving.core.errors import ServingError, invalid_argument

MAX_THREADS = 4096  # more than any machine has cores, and fewer than a system refuses to start
_MAX_TURNS = 1000  # queues to remember at most: clients choose their outputs, and must not fill the memory


@dataclass(frozen=True)
class BatchingOptions:
    """TF Serving's BatchingParameters with its defaults.

    Args:
        max_batch_size: int. The most examples per request, and per batch unless large ones are split.
        batch_timeout_micros: int. How long a batch waits to be filled.
        max_enqueued_batches: int. How many batches of a queue may wait; further requests are refused.
        num_batch_threads: int. How many batches run at the same time, at most `MAX_THREADS`.
        allowed_batch_sizes: tuple of int. If not empty, batches are padded to the next of these sizes.
        pad_variable_length_inputs: bool. Whether tensors of different lengths are padded to the longest.
        enable_large_batch_splitting: bool. Whether requests larger than `max_execution_batch_size` are split.
            No request may be larger than `max_batch_size`, split or not.
        max_execution_batch_size: int. The most examples per batch when requests are split.
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
        counts = ("max_batch_size", "max_enqueued_batches", "num_batch_threads", "max_execution_batch_size")
        for name in counts:
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be positive. Received: {name}={getattr(self, name)}")
        if self.num_batch_threads > MAX_THREADS:
            raise ValueError(
                f"`num_batch_threads` must be at most {MAX_THREADS}."
                f" Received: num_batch_threads={self.num_batch_threads}"
            )
        if self.batch_timeout_micros < 0:
            raise ValueError(
                "`batch_timeout_micros` must not be negative."
                f" Received: batch_timeout_micros={self.batch_timeout_micros}"
            )
        sizes = list(self.allowed_batch_sizes)
        if sizes and (sizes != sorted(set(sizes)) or sizes[-1] != self.batch_limit):
            raise ValueError(
                "`allowed_batch_sizes` must increase and end with the size of the largest batch."
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
    """The tensors of one request, or of a part of one, and the future of its values."""

    feeds: dict
    size: int
    future: CancellableFuture = field(default_factory=CancellableFuture)
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

    @property
    def queue(self):
        """The queue, which takes turns with others: a signature of a model, which it does not keep alive."""
        return id(self.servable), self.fetches


class Batcher:
    """Runs computations of the same kind together.

    Args:
        options: `BatchingOptions`.
        metrics: `Metrics`.

    Attributes:
        num_runs: int. The most batches that run at the same time.
    """

    def __init__(self, options, metrics):
        self.num_runs = options.num_batch_threads
        self._options = options
        self._metrics = metrics
        self._timeout = options.batch_timeout_micros / 1e6
        self._changed = threading.Condition()
        self._waiting = []  # batches, oldest first
        self._open = {}  # for each kind, the batch that still takes tasks
        self._turns = {}  # for each queue, the turn at which its last batch was taken
        self._num_turns = 0
        self._num_busy = 0  # threads that are running a batch
        self._closed = False
        for number in range(options.num_batch_threads):
            threading.Thread(target=self._work, name=f"batch-{number}", daemon=True).start()

    def submit(self, servable, feeds, fetches):
        """Adds a request to a batch; see `convnlp.serving.core.runner.Runner.submit`.

        Raises:
            ServingError: if the tensors have no common batch axis, there are too many examples, or too many
                batches wait. In this case, no part of the request is queued.
        """
        size = _batch_size(feeds)
        most = self._options.max_batch_size
        if size > most:
            raise invalid_argument(f"Task size {size} is larger than maximum input batch size {most}")
        padded = self._options.pad_variable_length_inputs
        kinds = tuple(
            (name, array.dtype, array.ndim if padded else array.shape[1:]) for name, array in feeds.items()
        )
        key = (servable, fetches, kinds)
        whole = _Task(feeds, size)
        with self._changed:
            tasks = self._split(whole, self._room(key))
            self._check_capacity(key, tasks, size)
            for task in tasks:
                self._enqueue(key, task)
            self._changed.notify(len(tasks))
        self._metrics.input_batch_size.observe(size)
        for task in tasks:
            task.future.when_abandoned(partial(self._forget, key))
        return tasks[0].future if len(tasks) == 1 else _Joined([task.future for task in tasks])

    def close(self):
        """Ends the threads once the waiting batches are done."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _room(self, key):
        """Returns how many more examples the open batch of a kind takes."""
        return self._options.batch_limit - self._open[key].size if key in self._open else 0

    def _split(self, whole, room):
        """Returns the tasks of a request; if it is split, the first task fills the open batch."""
        limit = self._options.batch_limit
        first = room or limit
        if whole.size <= first or not self._options.enable_large_batch_splitting:
            return [whole]
        return [
            _Task({name: array[start:end] for name, array in whole.feeds.items()}, end - start)
            for start, end in itertools.pairwise([0, *range(first, whole.size, limit), whole.size])
        ]

    def _check_capacity(self, key, tasks, size):
        """Refuses a request if too many batches wait; those that an idle thread can take do not count."""
        room = self._room(key)
        new = len(tasks) - (0 < tasks[0].size <= room)
        if not new:
            return
        options = self._options
        servable, fetches, _ = key
        batches = [each for each in self._waiting if each.servable is servable and each.fetches == fetches]
        num_idle = options.num_batch_threads - self._num_busy
        waiting = max(0, len(batches) - num_idle)
        if not waiting or waiting + new <= options.max_enqueued_batches:
            return
        if not options.enable_large_batch_splitting:
            raise ServingError(
                "UNAVAILABLE",
                "The batch scheduling queue to which this task was submitted is full; currently"
                f" {len(batches)} batches enqueued and max_enqueued_batches is"
                f" {options.max_enqueued_batches}",
            )
        free = max(0, options.max_enqueued_batches - waiting) * options.batch_limit + room
        raise ServingError(
            "UNAVAILABLE",
            "The batch scheduling queue to which this task was submitted is full; task size is"
            f" {size} but scheduling capacity is only {free} (num_enqueued_batches={len(batches)},"
            f" max_enqueued_batches={options.max_enqueued_batches}, open_batch_size="
            f"{self._open[key].size if key in self._open else 0},"
            f" max_execution_batch_size={options.batch_limit})",
        )

    def _enqueue(self, key, task):
        """Adds a task to the open batch of its kind, or to a new one."""
        batch = self._open.get(key)
        if batch is None or batch.size + task.size > self._options.batch_limit or task.size == 0:
            servable, fetches, _ = key
            batch = _Batch(key, servable, fetches)
            self._waiting.append(batch)
            if task.size:  # nothing may join an empty task, whose outputs could not be told apart
                self._open[key] = batch
        batch.tasks.append(task)
        batch.size += task.size
        if batch.size >= self._options.batch_limit:
            self._open.pop(key, None)

    def _forget(self, key, future):
        """Removes a task that nobody waits for from its waiting batch, and the batch if it is empty then."""
        with self._changed:
            for batch in self._waiting:
                left = [task for task in batch.tasks if task.future is not future]
                if batch.key == key and len(left) < len(batch.tasks):
                    batch.tasks, batch.size = left, sum(task.size for task in left)
                    if not batch.tasks:
                        self._take(batch)
                    break

    def _take(self, batch):
        """Removes a batch from those that wait."""
        self._waiting.remove(batch)
        if self._open.get(batch.key) is batch:
            del self._open[batch.key]

    def _work(self):
        num_done = 0
        while batch := self._next_batch(num_done):
            now = time.monotonic()
            tasks = [task for task in batch.tasks if task.future.set_running_or_notify_cancel()]
            for task in tasks:
                self._metrics.queuing_latency.observe((now - task.enqueued) * 1e6, "")
            if tasks:
                self._process(batch, tasks)
            num_done = 1
            del batch, tasks  # so that an idle thread does not keep a model alive

    def _next_batch(self, num_done):
        """Waits until a batch is ready, and takes the next one in turn; returns None when closed."""
        with self._changed:
            self._num_busy -= num_done
            while True:
                now = time.monotonic()
                ready = {}  # the oldest ready batch of each queue
                for batch in self._waiting:
                    is_open = self._open.get(batch.key) is batch
                    if not is_open or now >= batch.created + self._timeout or self._closed:
                        ready.setdefault(batch.queue, batch)
                if ready:
                    batch = min(ready.values(), key=lambda batch: self._turns.get(batch.queue, 0))
                    self._take(batch)
                    if not self._waiting or len(self._turns) >= _MAX_TURNS:
                        self._turns.clear()
                    self._num_turns += 1
                    self._turns[batch.queue] = self._num_turns
                    self._num_busy += 1
                    return batch
                if self._closed:
                    return None
                oldest = self._waiting[0].created if self._waiting else None
                left = math.inf if oldest is None else oldest + self._timeout - now
                self._changed.wait(None if left > threading.TIMEOUT_MAX else left)

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
        """Runs tasks as one batch, and returns a list of values for each."""
        size = sum(task.size for task in tasks)
        allowed = (allowed for allowed in self._options.allowed_batch_sizes if allowed >= size)
        padding = next(allowed, size) - size if size else 0  # without a row there is none to repeat
        self._metrics.wrapped_runs.add()
        self._metrics.processed_batch_size.observe(size + padding)
        self._metrics.padding_size.observe(padding, str(size + padding))
        feeds = tasks[0].feeds
        if len(tasks) > 1 or padding:
            feeds = {name: _merged([task.feeds[name] for task in tasks], padding) for name in feeds}
        cancellation = Cancellation([task.future for task in tasks])
        merged = batch.servable.run(feeds, batch.fetches, cancellation)
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


class _Joined(Future):
    """The values of all parts of a request, joined in order; cancelling it cancels all parts.

    Args:
        parts: list of `CancellableFuture`.
    """

    def __init__(self, parts):
        super().__init__()
        self._parts = parts
        self._num_missing = len(parts)
        self._is_decided = False
        self._count_lock = threading.Lock()
        for part in parts:
            part.add_done_callback(self._arrived)

    def cancel(self):
        """Like `Future.cancel`."""
        if not super().cancel():
            return False
        for part in self._parts:
            part.cancel()
        return True

    def _arrived(self, part):
        """Called when a part is done; the last part, or the first that fails, completes the request."""
        failed = part.cancelled() or part.exception() is not None
        with self._count_lock:
            self._num_missing -= 1
            if self._is_decided or (self._num_missing and not failed):
                return
            self._is_decided = True
        if not self.set_running_or_notify_cancel():
            return
        try:
            if failed:
                for other in self._parts:
                    other.cancel()
                raise part.exception()
            values = zip(*(each.result() for each in self._parts), strict=True)
            self.set_result([_concatenated(arrays) for arrays in values])
        except Exception as error:  # any error must reach whoever waits
            self.set_exception(error)


def _concatenated(arrays):
    """Returns the values of the parts of a request as one array."""
    rows = {array.shape[1:] for array in arrays}
    if len(rows) > 1:
        shapes = " and ".join(sorted({str(list(row)) for row in rows})[:2])
        raise ServingError(
            "FAILED_PRECONDITION",
            "The parts of a split request cannot be joined: an output of the model has rows of the shapes"
            f" {shapes}. The size of an output must not depend on its batch; otherwise a request must not be"
            " larger than max_execution_batch_size",
        )
    return np.concatenate(arrays)


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
    """Joins the arrays of several tasks, padding rows and batch with existing values."""
    longest = tuple(max(sizes) for sizes in zip(*(array.shape[1:] for array in arrays), strict=True))
    arrays = [array if array.shape[1:] == longest else _padded(array, longest) for array in arrays]
    return np.concatenate([*arrays, *[arrays[-1][:1]] * padding])


def _padded(array, longest):
    """Pads rows with the array's first value, as TF Serving does."""
    if not array.size:
        raise invalid_argument("Got empty tensor in batch of non-empty tensors.")
    padded = np.full((len(array), *longest), array.reshape(-1)[0], array.dtype)
    padded[tuple(slice(size) for size in array.shape)] = array
    return padded
