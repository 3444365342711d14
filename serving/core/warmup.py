"""Runs the requests that lie in the directory of a version, before it is served.

This is TF Serving's warm-up: `assets.extra/tf_serving_warmup_requests` in the version's directory is a
TFRecord file of at most 1,000 PredictionLog messages. A version whose warm-up fails is not served.
"""

import dataclasses
import os
import time

import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from convnlp.serving.core import inference, messages
from convnlp.serving.core.errors import invalid_argument
from convnlp.serving.core.limits import Limits
from convnlp.serving.core.metrics import microseconds

FILE_NAME = os.path.join("assets.extra", "tf_serving_warmup_requests")
_MAX_RECORDS = 1000


def warm_up(servable, num_iterations, limits, metrics):
    """Runs the warm-up requests of a version, if it has any.

    Args:
        servable: `Servable`.
        num_iterations: int. How often to run each of them.
        limits: `Limits` or None. How large the requests of clients may be. Those of the warm-up may have at
            least the default sizes, because they come with the model.
        metrics: `Metrics`.

    Raises:
        ServingError: if a request cannot be read or answered; the message names it and the file.
    """
    file = os.path.join(servable.path, FILE_NAME)
    if not os.path.exists(file):
        return
    limits = _for_warm_up(limits or Limits())
    started, count, status = time.monotonic(), 0, "OK"
    try:
        for record in tf.compat.v1.io.tf_record_iterator(file):
            count += 1
            if count > _MAX_RECORDS:
                raise invalid_argument(
                    f"Number of warmup records exceeds the maximum ({_MAX_RECORDS}) at {file}"
                )
            log = prediction_log_pb2.PredictionLog.FromString(record)
            for _ in range(num_iterations):
                for computation in _computations(servable, log, limits):
                    computation.finish(servable.run(computation.feeds, computation.fetches))
    except Exception as error:
        status = getattr(error, "code", "INVALID_ARGUMENT")
        # The error of a run is a `ServingError`, so TensorFlow's own is about the record after the last one.
        number = count + isinstance(error, tf.errors.OpError)
        raise invalid_argument(f"warm-up request {number} of {file}: {error}") from error
    finally:
        metrics.warmup_latency.observe(microseconds(started), servable.path, status)
        metrics.warmup_records.add(servable.path, status, by=count)


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
