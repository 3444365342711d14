"""Builds protobuf messages that no Python package provides, or none without TensorFlow, from descriptors.

This module has the configuration messages of TF Serving, with the names, numbers and types of their fields,
in the package tensorflow.serving: `BatchingParameters` (servables/tensorflow/session_bundle_config.proto) and
`MonitoringConfig` (config/monitoring_config.proto). `convnlp.serving.client.grpc_messages` has those of gRPC.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2

_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "bool": _FIELD.TYPE_BOOL,
    "bytes": _FIELD.TYPE_BYTES,
    "double": _FIELD.TYPE_DOUBLE,
    "float": _FIELD.TYPE_FLOAT,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "string": _FIELD.TYPE_STRING,
    "uint32": _FIELD.TYPE_UINT32,
    "uint64": _FIELD.TYPE_UINT64,
}


def build_messages(file_name, package, messages, pool=None):
    """Builds message classes.

    Args:
        file_name: str. The name of the proto file.
        package: str. The package of its messages.
        messages: dict of message name to {field name: (number, type)}. A type is a scalar type, the name of a
            message of this file, or the full name of another message; "repeated " or "map " (for a map from
            strings) may precede it.
        pool: descriptor_pool.DescriptorPool or None. Where the messages are registered; it must contain
            google/protobuf/wrappers. None: the default pool of the process.

    Returns:
        dict of message name to class.
    """
    proto = descriptor_pb2.FileDescriptorProto(
        name=file_name, package=package, syntax="proto3", dependency=[wrappers_pb2.DESCRIPTOR.name]
    )

    def add(message, name, number, kind):
        label, _, kind = kind.rpartition(" ")
        if label == "map":
            entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
            entry.options.map_entry = True
            add(entry, "key", 1, "string")
            add(entry, "value", 2, kind)
            kind = f"{package}.{message.name}.{entry.name}"
        field = message.field.add(
            name=name, number=number, label=_FIELD.LABEL_REPEATED if label else _FIELD.LABEL_OPTIONAL
        )
        if kind in _TYPES:
            field.type = _TYPES[kind]
        else:
            field.type_name = f".{package}.{kind}" if kind in messages else f".{kind}"

    for message_name, fields in messages.items():
        message = proto.message_type.add(name=message_name)
        for field_name, (number, kind) in fields.items():
            add(message, field_name, number, kind)
    pool = pool or descriptor_pool.Default()
    pool.Add(proto)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }


BatchingParameters = build_messages(
    "tensorflow_serving/servables/tensorflow/session_bundle_config.proto",
    "tensorflow.serving",
    {
        "BatchingParameters": {
            "max_batch_size": (1, "google.protobuf.Int64Value"),
            "batch_timeout_micros": (2, "google.protobuf.Int64Value"),
            "max_enqueued_batches": (3, "google.protobuf.Int64Value"),
            "num_batch_threads": (4, "google.protobuf.Int64Value"),
            "thread_pool_name": (5, "google.protobuf.StringValue"),
            "allowed_batch_sizes": (6, "repeated int64"),
            "pad_variable_length_inputs": (7, "bool"),
            "enable_large_batch_splitting": (8, "google.protobuf.BoolValue"),
            "max_execution_batch_size": (9, "google.protobuf.Int64Value"),
        }
    },
)["BatchingParameters"]

MonitoringConfig = build_messages(
    "tensorflow_serving/config/monitoring_config.proto",
    "tensorflow.serving",
    {
        "PrometheusConfig": {"enable": (1, "bool"), "path": (2, "string")},
        "MonitoringConfig": {"prometheus_config": (1, "PrometheusConfig")},
    },
)["MonitoringConfig"]
