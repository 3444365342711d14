"""The shards of a run's data, which stay the same if the run continues with another number of workers.

A run cuts its data into as many shards as it has workers at the start. Each shard is read by its own
pipeline, whose state is part of the checkpoint, and provides an equal part of the rows of every batch:

    shards   0000 1111 2222        12 rows from 3 shards, read by 3 workers,
    workers  000000 111111         and later by 2: worker 0 reads shard 0 and the first half of shard 1

So the batches of a run are the same, row for row, however many workers take part later, and every example
occurs once per epoch. As long as the number of workers stays the same, each reads one shard. If it changes, a
shard may be read by two or more workers, each of which keeps its own rows.
"""

import tensorflow as tf


def read_by(worker, num_workers, num_shards):
    """Returns the numbers of the shards that a worker reads, a range.

    Args:
        worker: int, from 0.
        num_workers: int.
        num_shards: int.

    Example:
    >>> [list(read_by(worker, 2, 3)) for worker in range(2)]
    [[0, 1], [1, 2]]
    """
    return range(worker * num_shards // num_workers, -(-(worker + 1) * num_shards // num_workers))


def saved_by(shard, num_workers, num_shards):
    """Returns the number of the worker that saves a shard's state: the first of those that read it."""
    return shard * num_workers // num_shards


class Sharded:
    """The shards of a data set that this process reads.

    Args:
        datasets: dict, shard number -> infinite `tf.data.Dataset` of dicts [B / count, ...].
        count: int, number of shards of the run.
    """

    def __init__(self, datasets, count):
        self.datasets, self.count = dict(datasets), count


class Batches:
    """An iterator over this worker's rows of super-batches: dicts [num_steps, B / num_workers, ...].

    Args:
        data: `Sharded`; or one `tf.data.Dataset`, this worker's shard in a run with as many shards as
            workers.
        num_steps: int, batches in a super-batch.
        worker: int, number of this worker.
        num_workers: int.

    Attributes:
        iterators: dict, shard number -> its iterator, which a checkpoint saves and restores.
        count: int, number of shards of the run.
        spec: dict of `tf.TensorSpec`, of a super-batch; axes whose size may vary are open.

    Raises:
        ValueError: if the shards in `data` are not those that this worker reads.
    """

    def __init__(self, data, num_steps, worker, num_workers):
        if not isinstance(data, Sharded):
            data = Sharded({worker: data}, num_workers)
        wanted = list(read_by(worker, num_workers, data.count))
        if sorted(data.datasets) != wanted:
            raise ValueError(
                f"`data` must have the shards {wanted} of {data.count} for worker {worker} of {num_workers}. "
                f"Received: {sorted(data.datasets)}"
            )
        self.count = data.count
        self._worker, self._num_workers = worker, num_workers
        self.iterators = {
            shard: iter(data.datasets[shard].batch(num_steps, drop_remainder=True)) for shard in wanted
        }
        self.spec = self.iterators[wanted[0]].element_spec

    def __iter__(self):
        return self

    def __next__(self):
        batches = {shard: next(iterator) for shard, iterator in self.iterators.items()}
        if len(batches) == 1 and self.count == self._num_workers:
            return batches[self._worker]
        return tf.nest.map_structure(_joined, *(self._own(*item) for item in batches.items()))

    def _own(self, shard, batch):
        """Returns this worker's rows from a shard's super-batch."""

        def cut(x):
            rows = x.shape[1]
            size = rows * self.count // self._num_workers  # of this worker, over all shards
            first = self._worker * size - shard * rows
            return x[:, max(first, 0) : first + size]

        return tf.nest.map_structure(cut, batch)


def _joined(*parts):
    """Joins the rows of several shards, padding all to the longest part if the lengths of batches vary."""
    longest = max(part.shape[2] for part in parts) if parts[0].shape.rank > 2 else None

    def padded(part):
        if longest is None or part.shape[2] == longest:
            return part
        missing = longest - part.shape[2]
        return tf.pad(part, [[0, 0], [0, 0], [0, missing], *[[0, 0]] * (part.shape.rank - 3)])

    return tf.concat([padded(part) for part in parts], axis=1)
