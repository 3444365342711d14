"""Converts TF Serving's protobuf messages: requests to computations, and results to responses."""

import dataclasses

import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import error_codes_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    regression_pb2,
)

from convnlp.serving.core import inference
from convnlp.serving.core.errors import ServingError
from convnlp.serving.core.tensors import serialized_examples, to_array

# The field of a TensorProto that holds the values of a type, for clients that read it directly.
_VALUE_FIELDS = {
    tf.float32: "float_val",
    tf.float64: "double_val",
    tf.int32: "int_val",
    tf.int16: "int_val",
    tf.int8: "int_val",
    tf.uint8: "int_val",
    tf.string: "string_val",
    tf.int64: "int64_val",
    tf.bool: "bool_val",
    tf.uint32: "uint32_val",
    tf.uint64: "uint64_val",
}


def predict(servable, request, limits):
    """Returns the `Computation` of a PredictRequest, finished as a dict of output name to array.

    Args:
        servable: `Servable`.
        request: The message.
        limits: `Limits`. How large its tensors may be.

    Raises:
        ServingError: if the request does not fit the signature, or a tensor is too large.
    """
    name = request.model_spec.signature_name or inference.DEFAULT_SIGNATURE
    if name not in servable.signatures:
        raise ServingError("FAILED_PRECONDITION", f'Serving signature key "{name}" not found.')
    # Names are checked first, so that tensors of unknown inputs are never made.
    computation = inference.predict(servable.signatures[name], dict(request.inputs), request.output_filter)
    feeds = {
        name: to_array(value, limits) if isinstance(value, tensor_pb2.TensorProto) else value
        for name, value in computation.feeds.items()
    }
    return dataclasses.replace(computation, feeds=feeds)


def by_examples(servable, request, limits, method):
    """Returns the `Computation` of a ClassificationRequest or RegressionRequest.

    Args:
        servable: `Servable`.
        request: The message.
        limits: `Limits`. How many examples there may be.
        method: Callable. `inference.classify` or `inference.regress`.
    """
    signature = inference.example_signature(servable, request.model_spec.signature_name)
    return method(signature, serialized_examples(request.input, limits))


def multi_inference(servable, request, limits):
    """Returns the `Computation` of a MultiInferenceRequest, finished as a list of results."""
    tasks = [(task.method_name, task.model_spec.signature_name) for task in request.tasks]
    return inference.multi_inference(servable, tasks, serialized_examples(request.input, limits))


def tensor_proto(array):
    """Returns an array as a TensorProto with its values in a typed field, as TF Serving writes it."""
    dtype = tf.as_dtype(array.dtype)
    if dtype not in _VALUE_FIELDS:
        return tf.make_tensor_proto(array)
    proto = tensor_pb2.TensorProto(
        dtype=dtype.as_datatype_enum, tensor_shape=tf.TensorShape(array.shape).as_proto()
    )
    getattr(proto, _VALUE_FIELDS[dtype]).extend(array.reshape(-1).tolist())
    return proto


def classification_result(results):
    """Returns classes with their scores as a ClassificationResult."""
    message = classification_pb2.ClassificationResult()
    for row in results:
        classes = message.classifications.add().classes
        for label, score in row:
            classes.add(label=label.decode("utf-8", "replace"), score=score)
    return message


def regression_result(values):
    """Returns numbers as a RegressionResult."""
    return regression_pb2.RegressionResult(
        regressions=[regression_pb2.Regression(value=value) for value in values]
    )


def model_spec(servable, signature_name=None):
    """Returns who answered: the model's name and version, and the signature if one was requested."""
    spec = model_pb2.ModelSpec(name=servable.name)
    spec.version.value = servable.version
    if signature_name is not None:
        spec.signature_name = signature_name or inference.DEFAULT_SIGNATURE
    return spec


def model_status(states):
    """Returns the states of a model's versions as a GetModelStatusResponse."""
    response = get_model_status_pb2.GetModelStatusResponse()
    for version, state in states.items():
        status = response.model_version_status.add(
            version=version, state=get_model_status_pb2.ModelVersionStatus.State.Value(state.state)
        )
        status.status.error_code = error_codes_pb2.Code.Value(state.error_code)
        status.status.error_message = state.error_message
    return response


def model_metadata(servable):
    """Returns the signatures of a model as a GetModelMetadataResponse."""
    signatures = get_model_metadata_pb2.SignatureDefMap()
    for name, signature in servable.signatures.items():
        signatures.signature_def[name].CopyFrom(signature)
    response = get_model_metadata_pb2.GetModelMetadataResponse(model_spec=model_spec(servable))
    response.metadata["signature_def"].Pack(signatures)
    return response


def to_dict(message):
    """Returns a message as the REST interface shows it: every field by its name in the proto."""
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
