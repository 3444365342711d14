"""The reader of gRPC requests: from the bytes of a message to those of the answer, without sockets."""

import grpc
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from convnlp.serving.core.inference import CLASSIFY_METHOD
from convnlp.serving.grpc.calls import Careful
from convnlp.serving.grpc.service import ModelService, PredictionService
from tests.fuzz.reader import MOST_CHARACTERS, Reader
from tests.fuzz.rest_request import small_models

_PREDICTIONS = "/tensorflow.serving.PredictionService/"
# HandleReloadConfigRequest is not among them: it is its task to load whatever lies where the message says.
METHODS = (
    *(
        _PREDICTIONS + name
        for name in ("Predict", "Classify", "Regress", "MultiInference", "GetModelMetadata")
    ),
    "/tensorflow.serving.ModelService/GetModelStatus",
)
ALLOWED = {"INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"}
ALLOWED |= {"UNIMPLEMENTED", "OUT_OF_RANGE"}  # of operations


class _Ended(Exception):
    """A call that ended with a status."""


class _Context:
    """A call of a client that waits."""

    def abort(self, code, details):
        assert len(details) <= MOST_CHARACTERS + 3, details
        raise _Ended(code.name)

    def add_callback(self, callback):
        return True

    def is_active(self):
        return True

    def time_remaining(self):
        return None


class _Server:
    """Keeps the handlers that a grpc.Server would call."""

    def __init__(self):
        self.handlers = []

    def add_generic_rpc_handlers(self, handlers):
        self.handlers += handlers

    def add_registered_method_handlers(self, service_name, method_handlers):
        pass

    def handler(self, method):
        details = type("Details", (grpc.HandlerCallDetails,), {"method": method, "invocation_metadata": ()})()
        return next(filter(None, (each.service(details) for each in self.handlers)))


def _example(**features):
    example = tf.train.Example()
    for name, value in features.items():
        example.features.feature[name].float_list.value.append(value)
    return example


def _requests():
    for signature, value in (("float32", [1.0]), ("string", [b"ab"]), ("bool", [True]), ("half", [0.5])):
        predict = predict_pb2.PredictRequest()
        predict.model_spec.name, predict.model_spec.signature_name = "g", signature
        predict.inputs["x"].CopyFrom(tf.make_tensor_proto(value))
        yield 0, predict
        listed = predict_pb2.PredictRequest.FromString(predict.SerializeToString())
        listed.inputs["x"].CopyFrom(tf.make_tensor_proto(value, shape=[4]))
        listed.output_filter.append("y")
        yield 0, listed
    classify = classification_pb2.ClassificationRequest()
    classify.model_spec.name, classify.model_spec.signature_name = "g", "classify"
    classify.input.example_list.examples.append(_example(x=1.0))
    yield 1, classify
    shared = classification_pb2.ClassificationRequest()
    shared.model_spec.name, shared.model_spec.signature_name = "g", "regress"
    shared.input.example_list_with_context.examples.append(_example())
    shared.input.example_list_with_context.context.CopyFrom(_example(x=1.0))
    yield 2, shared
    several = inference_pb2.MultiInferenceRequest()
    task = several.tasks.add(method_name=CLASSIFY_METHOD)
    task.model_spec.name, task.model_spec.signature_name = "g", "classify"
    several.input.example_list.examples.append(_example(x=1.0))
    yield 3, several
    metadata = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    metadata.model_spec.name = "g"
    yield 4, metadata
    status = get_model_status_pb2.GetModelStatusRequest()
    status.model_spec.name, status.model_spec.version.value = "g", 1
    yield 5, status


class GrpcMessage(Reader):
    """The first byte chooses the method, the others are the message."""

    def __init__(self, folder):
        super().__init__(folder)
        models, limits = small_models(folder)
        self._models, server = models, _Server()
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            PredictionService(models.manager, models.runner, models.metrics, limits), Careful(server)
        )
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(
            ModelService(models.manager), Careful(server)
        )
        self._handlers = [server.handler(method) for method in METHODS]
        self.seeds = [bytes([method]) + message.SerializeToString() for method, message in _requests()]

    def read(self, data):
        handler = self._handlers[(data[0] if data else 0) % len(METHODS)]
        try:
            answer = handler.unary_unary(handler.request_deserializer(data[1:]), _Context())
            outcome = "OK" if handler.response_serializer(answer) is not None else "no answer"
        except _Ended as ended:
            outcome = str(ended)
        assert outcome == "OK" or outcome in ALLOWED, outcome
        assert self._models.manager._versions._users == {}
        return outcome
