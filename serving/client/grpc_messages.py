"""The messages of TF Serving's gRPC interface, built from descriptors, without TensorFlow.

They have only the fields that are used here, with their numbers in TF Serving's and TensorFlow's proto files.
They live in a pool of their own, so that they do not clash with those of tensorflow-serving-api in a process.
"""

from google.protobuf import any_pb2, descriptor_pool, wrappers_pb2

from convnlp.serving.protos import build_messages

_pool = descriptor_pool.DescriptorPool()
for _file in (wrappers_pb2, any_pb2):
    _pool.AddSerializedFile(_file.DESCRIPTOR.serialized_pb)
MESSAGES = build_messages(
    "serving/client/grpc_client.proto",
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
