"""One version of a model: a SavedModel in a Session of its own, as TF Serving runs it."""

import threading

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the tokenizer ops that exported models hold)
from tensorflow.core.protobuf import error_codes_pb2
from tensorflow.python.saved_model import loader_impl

from convnlp.serving.core.errors import ServingError, timed_out
from convnlp.serving.core.prepared_run import PreparedRun
from convnlp.serving.core.stop_switch import StopSwitches, session_config

# How many are kept, one for each choice of inputs and outputs that was asked for.
_MAX_PREPARED_RUNS = 64


class _Loader(loader_impl.SavedModelLoader):
    """Loads a SavedModel without the shapes of its inputs.

    TF Serving leaves it to the model's own ops whether a shape fits, while a Session of Python compares with
    the shape of the placeholder first. The signatures keep their shapes; only the placeholders lose them.
    """

    def get_meta_graph_def_from_tags(self, tags):
        meta_graph = super().get_meta_graph_def_from_tags(tags)
        signatures = meta_graph.signature_def.values()
        fed = {info.name.split(":")[0] for signature in signatures for info in signature.inputs.values()}
        for node in meta_graph.graph_def.node:
            if node.name in fed:
                node.attr["shape"].shape.Clear()
                node.attr["shape"].shape.unknown_rank = True
                node.attr.pop("_output_shapes", None)
        return meta_graph


class Servable:
    """A loaded version of a model.

    It runs in a Session, not by `tf.saved_model.load`, for the sake of the same answers: a model that a
    Session cannot run (see the export's notes on Keras variables) must fail here too, before it fails in
    production.

    Args:
        name: str. The model's name.
        version: int.
        path: str. The SavedModel's directory.
        timeout_ms: int. How long a run may take; 0 for as long as it likes.
        num_runs: int or None. How many runs there are at a time, at most. Default: four per core.

    Raises:
        Exception: whatever TensorFlow finds wrong with the directory.
    """

    def __init__(self, name, version, path, timeout_ms=0, num_runs=None):
        self.name = name
        self.version = version
        self.path = path
        self._timeout_ms = timeout_ms
        self._prepared_runs = {}
        self._lock = threading.Lock()
        with tf.Graph().as_default() as graph:
            self._session = tf.compat.v1.Session(graph=graph, config=session_config(num_runs))
            meta_graph = _Loader(path).load(self._session, [tf.saved_model.SERVING])
        self._switches = StopSwitches(self._session)
        self.signatures = dict(meta_graph.signature_def)

    def run(self, feeds, fetches, cancellation=None):
        """Runs the graph.

        Args:
            feeds: dict of str to array. Values for tensors, by their names in the graph.
            fetches: tuple of str. The names of the tensors to return.
            cancellation: `Cancellation` or None. What ends the run before its time.

        Returns:
            list of array, one per fetch.

        Raises:
            ServingError: with the status and the words of the op that failed; CANCELLED if nobody waits.
        """
        if cancellation:
            cancellation.check()
        try:
            outputs = self._prepared_run((*feeds,), fetches)(feeds.values(), cancellation)
        except tf.errors.DeadlineExceededError as error:
            raise timed_out() from error
        except tf.errors.OpError as error:
            raise ServingError(error_codes_pb2.Code.Name(error.error_code), error.message) from error
        # A scalar string comes as bytes, of which NumPy would make an array without their final NULs.
        return [np.asarray(value, object if isinstance(value, bytes) else None) for value in outputs]

    def _prepared_run(self, feeds, fetches):
        found = self._prepared_runs.get((feeds, fetches))
        if found is None:
            with self._lock:
                if len(self._prepared_runs) >= _MAX_PREPARED_RUNS:
                    self._prepared_runs.clear()
                found = PreparedRun(self._session, self._switches, feeds, fetches, self._timeout_ms)
                self._prepared_runs[feeds, fetches] = found
        return found

    def close(self):
        """Frees the model; nothing may run it any more."""
        self._prepared_runs.clear()
        self._switches.close()
        self._session.close()
