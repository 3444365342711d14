"""Loads a version of a model, and makes sure that it can serve before it does."""

import os
import time

import tensorflow as tf
from tensorflow.core.protobuf import error_codes_pb2

from convnlp import saved_model_sums
from convnlp.serving.core.damage import damaged_file
from convnlp.serving.core.errors import ServingError, first_line
from convnlp.serving.core.limits import Limits
from convnlp.serving.core.metrics import microseconds
from convnlp.serving.core.servable import Servable
from convnlp.serving.core.spare_memory import give_back
from convnlp.serving.core.warmup import warm_up

_TFLITE_NAME = "model.tflite"


class Loader:
    """Loads versions for `convnlp.serving.core.models.ModelManager`.

    Args:
        metrics: `Metrics`.
        timeout_ms: int. How long a client's request may take; 0 for no limit. A warm-up request may take at
            least the default. (Whoever waits for a client's request stops it in time.)
        num_iterations: int. How often to run each warm-up request; 0 for no warm-up.
        limits: `Limits`. How large the requests of clients may be; see `warm_up`.
        prefer_tflite: bool. Whether to answer with `model.tflite`, if there is one, whatever it can answer.
        num_interpreters: int. See `LiteServable`.
        num_runs: int or None. See `Servable`.
    """

    def __init__(
        self,
        metrics,
        timeout_ms=0,
        num_iterations=1,
        limits=None,
        prefer_tflite=False,
        num_interpreters=1,
        num_runs=None,
    ):
        self._metrics = metrics
        self._timeout_ms = timeout_ms and max(timeout_ms, Limits.timeout_ms)
        self._num_iterations = num_iterations
        self._limits = limits
        self._prefer_tflite = prefer_tflite
        self._num_interpreters = num_interpreters
        self._num_runs = num_runs

    def __call__(self, name, version, path):
        """Loads the `Servable` of a directory and warms it up; raises an exception if anything is wrong."""
        started, status = time.monotonic(), "fail"
        try:
            servable = self._load(name, version, path)
            try:
                if self._num_iterations:
                    warm_up(servable, self._num_iterations, self._limits, self._metrics)
            except Exception:
                servable.close()
                raise
            status = "success"
        finally:
            give_back()
            self._metrics.load_attempts.add(path, status)
        self._metrics.load_latency.add(path, by=round(microseconds(started)))
        return servable

    def _load(self, name, version, path):
        try:
            saved_model_sums.check(path)
        except (ValueError, OSError) as error:
            raise ServingError("DATA_LOSS", str(error)) from error
        try:
            if self._prefer_tflite and os.path.exists(os.path.join(path, _TFLITE_NAME)):
                from convnlp.serving.core.lite import LiteServable  # loads LiteRT only if it is needed

                file = os.path.join(path, _TFLITE_NAME)
                return LiteServable(
                    name, version, file, path, self._timeout_ms, self._num_interpreters, self._num_runs
                )
            return Servable(name, version, path, self._timeout_ms, self._num_runs)
        except Exception as error:  # a broken directory fails in many ways
            if damage := damaged_file(path):
                raise ServingError("DATA_LOSS", f"{damage[0]}: {damage[1]}") from error
            if isinstance(error, tf.errors.OpError):
                raise ServingError(error_codes_pb2.Code.Name(error.error_code), first_line(error)) from error
            raise
