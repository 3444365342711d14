"""Reads TensorProto and tf.Example messages of clients; checks what they declare before making arrays.

A TensorProto may hold fewer values than its shape has elements; the last value is then repeated. So a message
of 60 bytes can declare a tensor of gigabytes.
"""

import math

import tensorflow as tf
from tensorflow.core.framework import types_pb2

from convnlp.serving.core.errors import invalid_argument, too_large

_MAX_RANK = 254  # in TensorFlow
_STRING_BYTES = 24  # of memory per string in a tensor, besides its content
# The most elements of a tensor whose last value is repeated.
_MAX_REPEATED = 2**20


def to_array(proto, limits):
    """Returns the array of a TensorProto.

    Args:
        proto: TensorProto.
        limits: `Limits`.

    Raises:
        ServingError: if the tensor is larger than a limit, or its parts do not agree.
    """
    dtype = _dtype(proto)
    shape = _shape(proto.tensor_shape)
    item_bytes = _STRING_BYTES if dtype == tf.string else dtype.size
    limits.check_tensor(shape, item_bytes)
    count = math.prod(shape)
    if not proto.tensor_content:
        given = _num_values(proto, dtype)
        if given > count:
            raise invalid_argument(
                f"Tensor of the shape {list(shape)} must hold at most {count} values."
                f" Received: {given} values"
            )
        if given < count > _MAX_REPEATED:
            raise too_large(
                f"Tensor of the shape {list(shape)} must hold all {count} values: the last value is repeated"
                f" only up to {_MAX_REPEATED} elements. Received: {given} values"
            )
    elif dtype == tf.string or len(proto.tensor_content) != count * item_bytes:
        raise invalid_argument(
            f"Tensor of the shape {list(shape)} and type {types_pb2.DataType.Name(proto.dtype)} must have"
            + (" string_val, not tensor_content" if dtype == tf.string else f" {count * item_bytes} bytes")
            + f". Received: tensor_content of {len(proto.tensor_content)} bytes"
        )
    try:
        return tf.make_ndarray(proto)
    except OverflowError as error:
        raise invalid_argument(
            f"Tensor has a value that {types_pb2.DataType.Name(proto.dtype)} cannot hold: {error}"
        ) from error


def serialized_examples(message, limits):
    """Returns the serialized examples of an Input, each preceded by the context that they share.

    Args:
        message: Input.
        limits: `Limits`.

    Returns:
        list of bytes.

    Raises:
        ServingError: if there are too many examples, or they are too large.
    """
    kind = message.WhichOneof("kind")
    if kind is None:
        return []
    examples = getattr(message, kind)
    limits.check_batch_size(len(examples.examples))
    shared = examples.context.SerializeToString() if kind == "example_list_with_context" else b""
    limits.check_bytes(len(shared) * len(examples.examples), "The context of all examples")
    return [shared + example.SerializeToString() for example in examples.examples]


def _dtype(proto):
    try:
        dtype = tf.as_dtype(proto.dtype)
        is_known = dtype == tf.string or dtype.size > 0
    except TypeError:
        is_known = False
    if not is_known:
        names = {value: name for name, value in types_pb2.DataType.items()}
        raise invalid_argument(
            f"Tensor must be of a type that has values. Received: {names.get(proto.dtype, proto.dtype)}"
        )
    return dtype


def _shape(proto):
    """Returns the sizes of a TensorShapeProto; raises ServingError if one is unknown."""
    if proto.unknown_rank or len(proto.dim) > _MAX_RANK:
        rank = "an unknown rank" if proto.unknown_rank else f"{len(proto.dim)} dimensions"
        raise invalid_argument(f"Tensor must have at most {_MAX_RANK} dimensions. Received: {rank}")
    shape = tuple(dim.size for dim in proto.dim)
    if any(size < 0 for size in shape):
        raise invalid_argument(f"Tensor must have sizes of at least 0. Received: the shape {list(shape)}")
    return shape


def _num_values(proto, dtype):
    """Returns how many values a TensorProto holds in the field of its type."""
    values = {field.name: value for field, value in proto.ListFields() if field.name.endswith("_val")}
    count = max(map(len, values.values()), default=0)
    return count // 2 if dtype.is_complex else count
