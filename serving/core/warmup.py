"""Loads a version of a model, and runs the requests in its directory before it is served.

This is TF Serving's warm-up: `assets.extra/tf_serving_warmup_requests` in the version's directory is a
TFRecord file of at most 1,000 PredictionLog messages. A version whose warm-up fails is not served.
"""

import dataclasses
import os
import time

import tensorflow as tf
from tensorflow.core.protobuf import error_codes_pb2
from tensorflow_serving.apis import prediction_log_pb2

from convnlp import saved_model_sums
from convnlp.serving.core import inference, messages
from convnlp.serving.core.damage import damaged_file
from convnlp.serving.core.errors import ServingError, first_line, invalid_argument
from convnlp.serving.core.limits import Limits
from convnlp.serving.core.servable import Servable
from convnlp.serving.core.spare_memory import give_back

FILE_NAME = os.path.join("assets.extra", "tf_serving_warmup_requests")
_MAX_RECORDS = 1000
_TFLITE_NAME = "model.tflite"


class Loader:
    """Loads versions for `convnlp.serving.core.models.ModelManager`.

    Args:
        metrics: `Metrics`.
        timeout_ms: int. How long a run may take; 0 for no limit.
        num_iterations: int. How often to run each warm-up request; 0 for no warm-up.
        limits: `Limits`. How large the requests of clients may be; those of the warm-up may have at least the
            default sizes, because they come with the model.
        prefer_tflite: bool. Whether to answer with `model.tflite`, if there is one, whatever it can answer.
        num_interpreters: int or None. See `LiteServable`.
        num_runs: int or None. See `Servable`.
    """

    def __init__(
        self,
        metrics,
        timeout_ms=0,
        num_iterations=1,
        limits=None,
        prefer_tflite=False,
        num_interpreters=None,
        num_runs=None,
    ):
        self._metrics = metrics
        self._timeout_ms = timeout_ms
        self._num_iterations = num_iterations
        self._limits = _for_warm_up(limits or Limits())
        self._prefer_tflite = prefer_tflite
        self._num_interpreters = num_interpreters
        self._num_runs = num_runs

    def __call__(self, name, version, path):
        """Loads the `Servable` of a directory and warms it up; raises an exception if anything is wrong."""
        started, status = time.monotonic(), "fail"
        try:
            servable = self._load(name, version, path)
            try:
                self._warm_up(servable)
            except Exception:
                servable.close()
                raise
            status = "success"
        finally:
            give_back()
            self._metrics.load_attempts.add(path, status)
        self._metrics.load_latency.add(path, by=_microseconds(started))
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
                return LiteServable(name, version, file, path, self._timeout_ms, self._num_interpreters)
            return Servable(name, version, path, self._timeout_ms, self._num_runs)
        except Exception as error:  # a broken directory fails in many ways
            if damage := damaged_file(path):
                raise ServingError("DATA_LOSS", f"{damage[0]}: {damage[1]}") from error
            if isinstance(error, tf.errors.OpError):
                raise ServingError(error_codes_pb2.Code.Name(error.error_code), first_line(error)) from error
            raise

    def _warm_up(self, servable):
        file = os.path.join(servable.path, FILE_NAME)
        if not self._num_iterations or not os.path.exists(file):
            return
        started, count, status = time.monotonic(), 0, "OK"
        try:
            for record in tf.compat.v1.io.tf_record_iterator(file):
                count += 1
                if count > _MAX_RECORDS:
                    raise invalid_argument(
                        f"Number of warmup records exceeds the maximum ({_MAX_RECORDS}) at {file}"
                    )
                log = prediction_log_pb2.PredictionLog.FromString(record)
                for _ in range(self._num_iterations):
                    for computation in _computations(servable, log, self._limits):
                        computation.finish(servable.run(computation.feeds, computation.fetches))
        except Exception as error:
            status = getattr(error, "code", "INVALID_ARGUMENT")
            raise invalid_argument(f"warm-up request {count} of {file}: {error}") from error
        finally:
            self._metrics.warmup_latency.observe(_microseconds(started), servable.path, status)
            self._metrics.warmup_records.add(servable.path, status, by=count)


def _for_warm_up(limits):
    default = Limits()
    larger = {
        name: max(getattr(limits, name), getattr(default, name)) for name in ("batch_size", "body_bytes")
    }
    return dataclasses.replace(limits, **larger)


def _computations(servable, log, limits):
    """Returns a list with the computation of a record; it is empty if the record has no content."""
    kind = log.WhichOneof("log_type")
    if kind == "predict_log":
        return [messages.predict(servable, log.predict_log.request, limits)]
    if kind == "classify_log":
        return [messages.by_examples(servable, log.classify_log.request, limits, inference.classify)]
    if kind == "regress_log":
        return [messages.by_examples(servable, log.regress_log.request, limits, inference.regress)]
    if kind == "multi_inference_log":
        return [messages.multi_inference(servable, log.multi_inference_log.request, limits)]
    if kind is not None:
        raise invalid_argument(f"Unsupported log_type for warmup: {kind}")
    return []


def _microseconds(since):
    return round((time.monotonic() - since) * 1e6)
