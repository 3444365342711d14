"""Stops a run of a Session that has already begun, for which Python has no function.

A run fails as a whole if one of its ops fails. So for every fetched tensor, the run has another op that waits
for an element of a queue. The tensor itself enqueues one when it is computed. Whoever wants to stop the run
closes the queue, and the op fails at once, in the thread of the caller, since all threads of the Session may
be busy. Ops that are already running finish, and no other begins; a run ends in the same way at its time-out.
"""

import contextlib
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from convnlp.serving.core.cores import num_cores

_RAW = tf.compat.v1.raw_ops
_SCOPE = "stop_switch"
_HERE = config_pb2.RunOptions(inter_op_thread_pool=-1)  # in the thread of the caller
_AT_A_TIME = 16
POOL = 1  # the thread pool of a Session that is reserved for runs that can be stopped


def session_config(num_runs=None):
    """Returns the ConfigProto of a Session with `POOL`; Sessions with equal `num_runs` share both pools.

    A loop keeps a thread until it ends. If there were no more threads than runs, loops could take all of them
    before the waiting ops have begun.

    Args:
        num_runs: int or None. The most runs at a time that can be stopped. Default: four per core, like a
            server.
    """
    cores = num_cores()
    num_threads = (num_runs or 4 * cores) + cores
    # TensorFlow refuses a known name with another number of threads.
    name = f"runs that can be stopped, {num_threads}"
    pools = [
        # As many threads as TF_NUM_INTEROP_THREADS says, or as there are cores.
        config_pb2.ThreadPoolOptionProto(global_name="runs"),
        config_pb2.ThreadPoolOptionProto(num_threads=num_threads, global_name=name),
    ]
    return config_pb2.ConfigProto(session_inter_op_thread_pool=pools)


class StopSwitches:
    """The switches of a Session, one for each run under way.

    A Session copies all functions of its model whenever its graph grows, and runs that were prepared earlier
    keep the old copies. So all ops are added at the beginning; the graph grows again only for more than
    `_AT_A_TIME` switches at a time, and for tensors other than `outputs`. A switch is made when a run first
    needs it.

    Args:
        session: tf.compat.v1.Session, with `session_config`, that has not been run yet.
        outputs: sequence of str. The names of the tensors that runs fetch.

    Attributes:
        feed: str. The name of the tensor to which the name of a run's switch is fed, after all other feeds.
    """

    def __init__(self, session, outputs):
        self._session = session
        self._watches = {}
        self._free = []
        self._unmade = []  # (queue, handle) of switches
        self._num_switches = 0
        self._lock = threading.Lock()  # protects the graph
        with self._building():
            name = tf.compat.v1.placeholder(tf.string, [])
            # The handle of a resource can be neither fed nor fetched; the Session keeps it under a name.
            self._queue = _RAW.GetSessionTensor(handle=name, dtype=tf.resource)
            self._close_op = _RAW.QueueCloseV2(handle=self._queue)
            self._destroy_op = _RAW.DestroyResourceOp(resource=self._queue)
        self.feed = name.name
        self.targets(outputs)
        self._add_switches()

    def targets(self, fetches):
        """Adds the ops that a run needs so that it can be stopped.

        Args:
            fetches: sequence of str. The names of the tensors that the run fetches.

        Returns:
            list of str. The names of the ops to run with it.
        """
        with self._lock:
            found = [self._watch(name) for name in dict.fromkeys(fetches)]
        return [target for targets in found for target in targets] if all(found) else []

    def run(self, prepared, values, cancellation=None):
        """Executes a run that can be stopped.

        Args:
            prepared: Callable of the Session, on `POOL`, with `targets` and, as its last feed, `feed`.
            values: sequence of array. The values of the other feeds.
            cancellation: `Cancellation` or None. Says when to stop.

        Returns:
            list of array. The fetched values.

        Raises:
            tf.errors.OpError: the error of the op that failed, which is ours if the run was stopped.
        """
        try:
            switch = self._free.pop()
        except IndexError:
            switch = self._new()
        is_clean = False
        try:
            if cancellation:
                cancellation.attach(switch.turn)
            try:
                outputs = prepared(*values, switch.name)
            finally:
                if cancellation:
                    cancellation.detach()
            is_clean = not switch.is_turned
        finally:
            if is_clean or self._renewed(switch):
                self._free.append(switch)
        return outputs

    @contextlib.contextmanager
    def _building(self):
        """The scope of new ops: in the graph, under a common name, and on the CPU, like queues."""
        with self._session.graph.as_default(), tf.device("/CPU:0"), tf.name_scope(_SCOPE):
            yield

    @functools.cached_property
    def _close(self):
        return self._prepared([self.feed], self._close_op)

    @functools.cached_property
    def _destroy(self):
        return self._prepared([self.feed], self._destroy_op)

    def _watch(self, name):
        """Adds the ops for a fetched tensor, once; returns their names, or () if there is no such tensor."""
        if name not in self._watches:
            full_name = name if ":" in name else f"{name}:0"
            try:
                tensor = self._session.graph.get_tensor_by_name(full_name)
            except (KeyError, ValueError):  # the Session will report it in its own words
                return ()
            self._watches[name] = self._watched(tensor)
        return self._watches[name]

    def _watched(self, tensor):
        """Adds the ops that take part in a run that fetches a tensor; returns their names."""
        with self._building():
            # Not the tensor's own op, because control edges would prevent its fusion with others.
            fetched = tf.identity(tensor)
            with tf.control_dependencies([fetched]):
                always = _RAW.ControlTrigger()  # even if the tensor is in a branch that was not taken
            with tf.control_dependencies([always]):
                put = _RAW.QueueEnqueueV2(handle=self._queue, components=[tf.constant(True)])
            taken = _RAW.QueueDequeueV2(handle=self._queue, component_types=[tf.bool])
        return fetched.op.name, put.name, taken[0].op.name

    def _add_switches(self):
        with self._building():
            for _ in range(_AT_A_TIME):
                self._num_switches += 1
                queue = _RAW.FIFOQueueV2(
                    component_types=[tf.bool], shapes=[[]], shared_name=f"{_SCOPE}_{self._num_switches}"
                )
                self._unmade.append((queue, _RAW.GetSessionHandle(value=queue)))

    def _new(self):
        with self._lock:
            if not self._unmade:
                self._add_switches()
            queue, handle = self._unmade.pop()
        # `Session.run` would return an object that calls the Session when it is freed, which may be closed by
        # then.
        (name,) = self._prepared([], fetch=[handle.name])()
        switch = _Switch(self._prepared([], queue.op), self._close, np.array(name, object))
        switch.turn()
        self._renewed(switch)  # so that everything is prepared, and turning it takes no time
        return switch

    def _renewed(self, switch):
        """Gives a switch a new queue after a run that failed; returns whether this succeeded."""
        try:
            self._destroy(switch.name)
            switch.make_queue()
        except (tf.errors.OpError, RuntimeError):  # the Session is closed
            return False
        switch.is_turned = False
        return True

    def _prepared(self, feeds, target=None, fetch=()):
        targets = [target.name] if target else []
        options = config_pb2.CallableOptions(feed=feeds, fetch=fetch, target=targets, run_options=_HERE)
        return self._session._make_callable_from_options(options)


@dataclass(eq=False)
class _Switch:
    """Stops one run if it is turned during that run."""

    make_queue: Callable
    close_queue: Callable
    name: np.ndarray
    is_turned: bool = False

    def turn(self):
        """Stops the run that uses this switch."""
        self.is_turned = True
        self.close_queue(self.name)
