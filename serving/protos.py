"""The configuration messages of TF Serving that no Python package holds, built from their descriptors.

`BatchingParameters` (servables/tensorflow/session_bundle_config.proto) and `MonitoringConfig`
(config/monitoring_config.proto): the fields' names, numbers and types, in the package tensorflow.serving.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2

_WRAPPERS = wrappers_pb2.DESCRIPTOR.name
_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {"bool": _FIELD.TYPE_BOOL, "string": _FIELD.TYPE_STRING, "int64": _FIELD.TYPE_INT64}


def _messages(file_name, messages):
    """Builds message classes.

    Args:
        file_name: str. The name of the proto file.
        messages: dict of message name to {field name: (number, type)}; a type is a key of `_TYPES` or a full
            message name, with "repeated " before it where it is.

    Returns:
        dict of message name to class.
    """
    proto = descriptor_pb2.FileDescriptorProto(
        name=file_name, package="tensorflow.serving", syntax="proto3", dependency=[_WRAPPERS]
    )
    for message_name, fields in messages.items():
        message = proto.message_type.add(name=message_name)
        for field_name, (number, kind) in fields.items():
            label = _FIELD.LABEL_REPEATED if kind.startswith("repeated ") else _FIELD.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=number, label=label)
            kind = kind.removeprefix("repeated ")
            if kind in _TYPES:
                field.type = _TYPES[kind]
            else:
                field.type_name = f".{kind}"
    pool = descriptor_pool.Default()
    pool.Add(proto)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"tensorflow.serving.{name}"))
        for name in messages
    }


BatchingParameters = _messages(
    "tensorflow_serving/servables/tensorflow/session_bundle_config.proto",
    {
        "BatchingParameters": {
            "max_batch_size": (1, "google.protobuf.Int64Value"),
            "batch_timeout_micros": (2, "google.protobuf.Int64Value"),
            "max_enqueued_batches": (3, "google.protobuf.Int64Value"),
            "num_batch_threads": (4, "google.protobuf.Int64Value"),
            "thread_pool_name": (5, "google.protobuf.StringValue"),
            "allowed_batch_sizes": (6, "repeated int64"),
            "pad_variable_length_inputs": (7, "bool"),
        }
    },
)["BatchingParameters"]

MonitoringConfig = _messages(
    "tensorflow_serving/config/monitoring_config.proto",
    {
        "PrometheusConfig": {"enable": (1, "bool"), "path": (2, "string")},
        "MonitoringConfig": {"prometheus_config": (1, "tensorflow.serving.PrometheusConfig")},
    },
)["MonitoringConfig"]
