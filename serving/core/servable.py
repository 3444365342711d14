"""One version of a model: a SavedModel in its own Session, as TF Serving runs it."""

import threading

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import error_codes_pb2
from tensorflow.python.framework import ops

from convnlp.serving.core.errors import ServingError, invalid_argument, timed_out
from convnlp.serving.core.lean_session import LeanSession
from convnlp.serving.core.prepared_run import PreparedRun
from convnlp.serving.core.spare_memory import give_back
from convnlp.serving.core.stop_switch import StopSwitches, session_config

# The most to keep; there is one for each choice of inputs and outputs that was requested.
_MAX_PREPARED_RUNS = 64


class Servable:
    """A loaded version of a model.

    It runs in a Session, not with `tf.saved_model.load`, so that it answers like TF Serving: a model that a
    Session cannot run (see `convnlp.export.saved_models.signatures` on Keras variables) must fail here,
    before it fails in production.

    Args:
        name: str. The model's name.
        version: int.
        path: str. The SavedModel's directory.
        timeout_ms: int. How long a run may take; 0 for no limit.
        num_runs: int or None. The most runs at a time. Default: four per core.

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
            cancellation: `Cancellation` or None. May stop the run early.

        Returns:
            list of array, one per fetch.

        Raises:
            ServingError: with the status and message of the op that failed; CANCELLED if nobody waits for the
                run any more.
        """
        if cancellation:
            cancellation.check()
        try:
            outputs = self._prepared_run((*feeds,), fetches)(feeds.values(), cancellation)
        except tf.errors.DeadlineExceededError as error:
            raise timed_out() from error
        except tf.errors.OpError as error:
            raise ServingError(error_codes_pb2.Code.Name(error.error_code), error.message) from error
        except UnicodeDecodeError as error:
            # TensorFlow raises it instead if the message quotes bytes of the request that are not UTF-8.
            raise invalid_argument(error.object.decode("utf-8", "replace")) from error
        # A scalar string arrives as bytes, from whose end NumPy would strip NULs.
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
        """Frees the model, which can no longer be run."""
        with self._lock:
            self._prepared_runs.clear()
            session, self._session, self._switches = self._session, None, None
        if session is None:
            return
        session.close()
        ops.dismantle_graph(session.graph)  # its parts refer to each other
        del session
        give_back()
