"""Where the replicas of a model run: one device, the devices of one machine, several processes, a TPU.

Run so far, all on CPU: `one_device`, `mirrored` on logical devices and `multi_worker` with up to four
processes. Written from TensorFlow's documentation and never run: `tpu`, and every strategy on a GPU.
"""

import json
import math
import os
import re

import numpy as np
import tensorflow as tf

from convnlp.training import storage

_UNREACHABLE = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)

STRATEGIES = ("one_device", "mirrored", "multi_worker", "tpu")


def build(name, tpu="", num_virtual_devices=0):
    """Builds a strategy. Must be called before TensorFlow has run its first operation.

    Args:
        name: one of `STRATEGIES`. `mirrored` uses all GPUs of the machine, or its logical CPU devices;
            `multi_worker` reads the environment variable TF_CONFIG in each worker's process.
        tpu: string. Name or address of the TPU for `tpu`; "" or "local" for the one of this TPU VM.
        num_virtual_devices: int. Splits the CPU into this many logical devices, for `mirrored` without a GPU.

    Returns:
        A `tf.distribute.Strategy`.

    Raises:
        ValueError: if the name is unknown, the strategy cannot use a flag, TF_CONFIG is missing or wrong, or
            the TPU cannot be reached.
    """
    if name not in STRATEGIES:
        raise ValueError(f"`strategy` must be one of {', '.join(STRATEGIES)}. Received: strategy={name!r}")
    if tpu and name != "tpu":
        raise ValueError(f"`tpu` needs strategy='tpu'. Received: tpu={tpu!r}, strategy={name!r}")
    if num_virtual_devices and name != "mirrored":
        raise ValueError(
            "`num_virtual_devices` needs strategy='mirrored'. "
            f"Received: num_virtual_devices={num_virtual_devices}, strategy={name!r}"
        )
    if num_virtual_devices < 0:
        raise ValueError(
            f"`num_virtual_devices` must be at least 0. Received: num_virtual_devices={num_virtual_devices}"
        )
    if name == "one_device":
        return tf.distribute.OneDeviceStrategy(
            "/gpu:0" if tf.config.list_physical_devices("GPU") else "/cpu:0"
        )
    if name == "mirrored":
        return _mirrored(num_virtual_devices)
    if name == "multi_worker":
        _own_index()
        return tf.distribute.MultiWorkerMirroredStrategy()
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=tpu or "local")
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        raise ValueError(
            f"`tpu` must name a TPU that can be reached. Received: tpu={tpu!r} ({storage.reason(error)})"
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def _mirrored(num_virtual_devices):
    if num_virtual_devices:
        cpu = tf.config.list_physical_devices("CPU")[0]
        devices = [tf.config.LogicalDeviceConfiguration() for _ in range(num_virtual_devices)]
        tf.config.set_logical_device_configuration(cpu, devices)
    kind = "GPU" if tf.config.list_physical_devices("GPU") and not num_virtual_devices else "CPU"
    return tf.distribute.MirroredStrategy([device.name for device in tf.config.list_logical_devices(kind)])


def workers(strategy):
    """Returns (index of this process, number of processes that train together); a TPU has one process."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 0, 1
    resolver = strategy.cluster_resolver
    tasks = _tasks(resolver.cluster_spec().as_dict())
    return tasks.index((resolver.task_type, resolver.task_id)), len(tasks)


def worker_index(name):
    """Returns the index of this process among those that train together, before the strategy is built.

    Raises:
        ValueError: if TF_CONFIG is wrong.
    """
    return _own_index() if name == "multi_worker" and os.environ.get("TF_CONFIG") else 0


def _tasks(cluster):
    """Returns the processes of a cluster that train together, a list of (kind, number), by their indices."""
    return [(kind, number) for kind in ("chief", "worker") for number in range(len(cluster.get(kind, ())))]


def _own_index():
    """Returns the index of this process according to TF_CONFIG."""
    text = os.environ.get("TF_CONFIG")
    try:
        config = json.loads(text)
        return _tasks(config["cluster"]).index((config["task"]["type"], int(config["task"]["index"])))
    except (AttributeError, LookupError, TypeError, ValueError):
        raise ValueError(
            "strategy='multi_worker' needs TF_CONFIG, with a cluster and a task in it, for example "
            '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": "worker", "index": 0}}. '
            f"Received: TF_CONFIG={text!r}"
        ) from None


def is_unreachable(error):
    """Returns whether an error, or its cause, says that another machine is unreachable: a retry may help."""
    return isinstance(error, _UNREACHABLE) or isinstance(error.__cause__, _UNREACHABLE)


def lost_worker(error):
    """Returns the index of the worker that, according to a TensorFlow error, can no longer be reached.

    Args:
        error: `tf.errors.OpError`, raised by an operation that needed that worker.

    Returns:
        int, or None for an error of another kind.
    """
    if not is_unreachable(error):
        return None
    found = [int(index) for index in re.findall(r"/job:\w+/(?:replica:\d+/)?task:(\d+)", str(error))]
    # The devices of this process are named too.
    others = [index for index in found if index != worker_index("multi_worker")]
    return others[0] if others else None


def any_worker(strategy, flag):
    """Returns whether `flag` is true in any process. All must call it: it is also a barrier."""
    if workers(strategy)[1] == 1:
        return flag
    return any(value for (value,) in each_worker(strategy, [float(flag)]))


def each_worker(strategy, values):
    """Gathers values from all processes, which must all call it.

    Args:
        strategy: `tf.distribute.Strategy`.
        values: list of floats, the values of this process; equally many in all.

    Returns:
        list of such lists, one per process, in the order of their indices.
    """
    worker, num_workers = workers(strategy)
    if num_workers == 1:
        return [values]
    num_replicas = strategy.num_replicas_in_sync // num_workers
    own = tf.one_hot(worker, num_workers)[:, tf.newaxis] * tf.constant(values) / num_replicas  # [W,V]
    table = strategy.experimental_distribute_values_from_function(lambda context: own)
    return strategy.reduce("SUM", table, axis=None).numpy().tolist()


def agree(strategy, variables):
    """Gives variables the values that worker 0 has, in all processes, which must all call it.

    What each process computes from the same data may differ in the last bits.
    """
    if workers(strategy)[1] == 1 or not variables:
        return
    own = np.concatenate([variable.numpy().ravel() for variable in variables])
    values = np.array(each_worker(strategy, own.tolist())[0], own.dtype)
    for variable in variables:
        part, values = np.split(values, [math.prod(variable.shape)])
        variable.assign(part.reshape(variable.shape))


def own_rows(strategy, dataset):
    """Returns this process's rows [B / processes, ...] of batches [B, ...] that all processes have."""
    worker, num_workers = workers(strategy)
    if num_workers == 1:
        return dataset

    def own(x):
        size = x.shape[0] // num_workers
        return x[worker * size : (worker + 1) * size]

    return dataset.map(lambda batch: tf.nest.map_structure(own, batch))


def split(strategy, batch):
    """Cuts this process's super-batch [N, B, ...] into [N, B / replicas, ...] for each of its replicas."""
    num_replicas = strategy.num_replicas_in_sync // workers(strategy)[1]

    def part(context):
        index = context.replica_id_in_sync_group % num_replicas
        return tf.nest.map_structure(lambda x: tf.split(x, num_replicas, axis=1)[index], batch)

    return strategy.experimental_distribute_values_from_function(part)
