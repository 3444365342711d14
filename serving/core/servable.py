"""One version of a model: a SavedModel in a Session of its own, as TF Serving runs it."""

import threading

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import error_codes_pb2
from tensorflow.python.framework import ops

from convnlp.serving.core.errors import ServingError, timed_out
from convnlp.serving.core.lean_session import LeanSession
from convnlp.serving.core.prepared_run import PreparedRun
from convnlp.serving.core.spare_memory import give_back
from convnlp.serving.core.stop_switch import StopSwitches, session_config

# How many are kept, one for each choice of inputs and outputs that was asked for.
_MAX_PREPARED_RUNS = 64


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
        loaded = LeanSession(path, session_config(num_runs))
        self._session, self.signatures = loaded.session, loaded.signatures
        outputs = {info.name for signature in self.signatures.values() for info in signature.outputs.values()}
        self._switches = StopSwitches(self._session, sorted(outputs))
        try:
            loaded.restore()
        except Exception:
            self.close()
            raise

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
                if self._session is None:
                    raise ServingError("CANCELLED", f"{self.name} version {self.version} has been unloaded")
                if len(self._prepared_runs) >= _MAX_PREPARED_RUNS:
                    self._prepared_runs.clear()
                found = PreparedRun(self._session, self._switches, feeds, fetches, self._timeout_ms)
                self._prepared_runs[feeds, fetches] = found
        return found

    def close(self):
        """Frees the model; nothing may run it any more."""
        with self._lock:
            self._prepared_runs.clear()
            session, self._session, self._switches = self._session, None, None
        if session is None:
            return
        session.close()
        ops.dismantle_graph(session.graph)  # whose parts refer to each other
        del session
        give_back()
