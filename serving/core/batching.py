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
import threading
import time
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from convnlp.serving.core.cancellation import CancellableFuture, Cancellation
from convnlp.serving.core.errors import ServingError, invalid_argument
from convnlp.serving.core.split_requests import Joined

_MAX_TURNS = 1000  # queues to remember at most: clients choose their outputs, and must not fill the memory


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
        return tasks[0].future if len(tasks) == 1 else Joined([task.future for task in tasks])

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
            if tasks := self._started(batch):
                self._process(batch, tasks)
            num_done = 1
            del batch, tasks  # so that an idle thread does not keep a model alive

    def _started(self, batch):
        """Returns the tasks of a batch that somebody still waits for."""
        now = time.monotonic()
        tasks = [task for task in batch.tasks if task.future.set_running_or_notify_cancel()]
        for task in tasks:
            self._metrics.queuing_latency.observe((now - task.enqueued) * 1e6, "")
        return tasks

    def _next_batch(self, num_done):
        """Waits until a batch is ready, and takes the next one in turn; returns None when closed."""
        with self._changed:
            self._num_busy -= num_done
            while True:
                now = time.monotonic()
                if ready := self._ready(now):
                    batch = min(ready, key=lambda batch: self._turns.get(batch.queue, 0))
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

    def _ready(self, now):
        """Returns the oldest ready batch of each queue."""
        ready = {}
        for batch in self._waiting:
            is_open = self._open.get(batch.key) is batch
            if not is_open or now >= batch.created + self._timeout or self._closed:
                ready.setdefault(batch.queue, batch)
        return list(ready.values())

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
