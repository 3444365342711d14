"""Asks a server for predictions over gRPC, without TensorFlow: the messages are built from their descriptors.

Only the fields that are used here are in them, by their numbers in TF Serving's and TensorFlow's proto files.
They live in a pool of their own, so that they do not meet those of tensorflow-serving-api in one process.
"""

import grpc
from google.protobuf import any_pb2, descriptor_pool, wrappers_pb2

from serving.protos import build_messages
from serving.request_error import RequestError

_pool = descriptor_pool.DescriptorPool()
for _file in (wrappers_pb2, any_pb2):
    _pool.AddSerializedFile(_file.DESCRIPTOR.serialized_pb)
_messages = build_messages(
    "serving/grpc_client.proto",
    "tensorflow.serving",
    {
        "Dimension": {"size": (1, "int64")},
        "Shape": {"dim": (2, "repeated Dimension")},
        "Tensor": {
            "dtype": (1, "int32"),
            "tensor_shape": (2, "Shape"),
            "tensor_content": (4, "bytes"),
            "float_val": (5, "repeated float"),
            "double_val": (6, "repeated double"),
            "int_val": (7, "repeated int32"),
            "string_val": (8, "repeated bytes"),
            "int64_val": (10, "repeated int64"),
            "bool_val": (11, "repeated bool"),
            "uint32_val": (16, "repeated uint32"),
            "uint64_val": (17, "repeated uint64"),
        },
        "ModelSpec": {
            "name": (1, "string"),
            "version": (2, "google.protobuf.Int64Value"),
            "signature_name": (3, "string"),
            "version_label": (4, "string"),
        },
        "PredictRequest": {"model_spec": (1, "ModelSpec"), "inputs": (2, "map Tensor")},
        "PredictResponse": {"outputs": (1, "map Tensor")},
        "MetadataRequest": {"model_spec": (1, "ModelSpec"), "metadata_field": (2, "repeated string")},
        "Packed": {"value": (2, "bytes")},
        "MetadataResponse": {"metadata": (2, "map Packed")},
        "TensorInfo": {"dtype": (2, "int32")},
        "SignatureDef": {"inputs": (1, "map TensorInfo")},
        "SignatureDefMap": {"signature_def": (1, "map SignatureDef")},
        "StatusRequest": {"model_spec": (1, "ModelSpec")},
        "ModelVersionStatus": {"version": (1, "int64"), "state": (2, "int32")},
        "StatusResponse": {"model_version_status": (1, "repeated ModelVersionStatus")},
    },
    _pool,
)
# The field of values of each type, by the numbers of TensorFlow's DataType.
_FIELDS = {
    1: "float_val",
    2: "double_val",
    3: "int_val",
    4: "int_val",
    5: "int_val",
    6: "int_val",
    7: "string_val",
    9: "int64_val",
    10: "bool_val",
    22: "uint32_val",
    23: "uint64_val",
}
_STRING = 7
_STATES = {0: "UNKNOWN", 10: "START", 20: "LOADING", 30: "AVAILABLE", 40: "UNLOADING", 50: "END"}


class GrpcClient:
    """Talks to TF Serving's gRPC interface, as `serving.client.Client` does to REST.

    Args:
        address: str. The server's host and port, such as "127.0.0.1:8500".
        timeout_seconds: float. How long to wait for an answer.
    """

    def __init__(self, address: str, timeout_seconds: float = 60.0):
        self._channel = grpc.insecure_channel(address, [("grpc.max_receive_message_length", -1)])
        self._timeout_seconds = timeout_seconds
        self._dtypes: dict = {}

    def predict(self, model, instances, signature_name=None, version=None, label=None) -> list:
        """Returns the predictions for a batch of examples; see `serving.client.Client.predict`."""
        spec = _spec(model, signature_name, version, label)
        dtypes = self._input_types(spec)
        request = _messages["PredictRequest"](model_spec=spec)
        for name, dtype in dtypes.items():
            try:
                column = [row[name] if isinstance(row, dict) else row for row in instances]
                _fill(request.inputs[name], dtype, column)
            except (KeyError, TypeError, ValueError) as error:
                raise RequestError(f"input {name} does not fit: {error}", "INVALID_ARGUMENT") from error
        response = self._call("PredictionService/Predict", request, "PredictResponse")
        columns = {name: _values(tensor) for name, tensor in response.outputs.items()}
        if len(columns) == 1:
            return next(iter(columns.values()))
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def status(self, model, version=None) -> list[dict]:
        """Returns the states of the model's versions: dicts with `version` and `state`."""
        request = _messages["StatusRequest"](model_spec=_spec(model, None, version))
        response = self._call("ModelService/GetModelStatus", request, "StatusResponse")
        return [
            {"version": str(item.version), "state": _STATES[item.state]}
            for item in response.model_version_status
        ]

    def close(self):
        """Ends the connection."""
        self._channel.close()

    def _input_types(self, spec):
        """The types of the signature's inputs, asked of the server once."""
        key = spec.SerializeToString(deterministic=True)
        if key not in self._dtypes:
            request = _messages["MetadataRequest"](model_spec=spec, metadata_field=["signature_def"])
            response = self._call("PredictionService/GetModelMetadata", request, "MetadataResponse")
            signatures = _messages["SignatureDefMap"].FromString(response.metadata["signature_def"].value)
            name = spec.signature_name or "serving_default"
            if name not in signatures.signature_def:
                raise RequestError(f"the model has no signature {name}", "INVALID_ARGUMENT")
            inputs = signatures.signature_def[name].inputs
            self._dtypes[key] = {name: info.dtype for name, info in sorted(inputs.items())}
        return self._dtypes[key]

    def _call(self, method, request, response):
        call = self._channel.unary_unary(
            f"/tensorflow.serving.{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=_messages[response].FromString,
        )
        try:
            return call(request, timeout=self._timeout_seconds)
        except grpc.RpcError as error:
            raise RequestError(error.details(), error.code().name) from error


def _spec(model, signature_name, version=None, label=None):
    spec = _messages["ModelSpec"](name=model, signature_name=signature_name or "", version_label=label or "")
    if version is not None:
        spec.version.value = version
    return spec


def _fill(tensor, dtype, values):
    """Writes nested lists into a tensor; all rows must have the same shape."""
    if dtype not in _FIELDS:
        raise ValueError(f"this client does not know the type with number {dtype}")
    shape, flat = [], values
    while isinstance(flat, list):
        shape.append(len(flat))
        flat = flat[0] if flat else None
    flat = values
    for size in shape[1:]:
        if not all(isinstance(item, list) and len(item) == size for item in flat):
            raise ValueError("its rows differ in shape")
        flat = [value for item in flat for value in item]
    if dtype == _STRING:
        flat = [value.encode() if isinstance(value, str) else value for value in flat]
    tensor.dtype = dtype
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    getattr(tensor, _FIELDS[dtype]).extend(flat)


def _values(tensor):
    """Reads a tensor as nested lists; strings that are UTF-8 are str."""
    if tensor.dtype not in _FIELDS or tensor.tensor_content:
        raise RequestError(f"this client cannot read an output of the type with number {tensor.dtype}")
    values = list(getattr(tensor, _FIELDS[tensor.dtype]))
    if tensor.dtype == _STRING:
        values = [_text(value) for value in values]
    sizes = [dim.size for dim in tensor.tensor_shape.dim]
    for size in reversed(sizes[1:]):
        count = len(values) // size if size else 0
        values = [values[index * size : (index + 1) * size] for index in range(count)]
    return values if sizes else values[0]


def _text(value):
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
