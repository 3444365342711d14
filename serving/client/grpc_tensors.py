"""Turns nested lists into gRPC tensors and back."""

import math

from convnlp.serving.client.arguments import plain
from convnlp.serving.client.errors import RequestError

# The field that holds the values of each type, by the numbers of TensorFlow's DataType.
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
_STRING, _BOOL = 7, 10
_FLOATS = (1, 2)


def fill(tensor, dtype, values):
    """Writes nested lists into a tensor.

    Args:
        tensor: TensorProto, empty.
        dtype: int. A `tf.DType` as an enum, such as 1 for float32.
        values: nested lists, tuples or arrays of numbers, bool, str or bytes.

    Raises:
        ValueError: if this client does not know the type, or the rows differ in shape.
        TypeError: if a value does not have the type.
    """
    if dtype not in _FIELDS:
        raise ValueError(f"this client does not know the type with number {dtype}")
    values = plain(values)
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
    else:
        _check_numbers(flat, dtype)
    tensor.dtype = dtype
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    getattr(tensor, _FIELDS[dtype]).extend(flat)


def _check_numbers(values, dtype):
    """Raises TypeError for what REST refuses, and protobuf converts: 1 for True, True for 1, 1.0 for 1."""
    kinds = bool if dtype == _BOOL else (int, float) if dtype in _FLOATS else int
    for value in values:
        if not isinstance(value, kinds) or isinstance(value, bool) != (dtype == _BOOL):
            raise TypeError(f"{value!r:.100} is not of its type")


def values(tensor, as_bytes=False):
    """Reads a tensor as nested lists.

    Args:
        tensor: TensorProto.
        as_bytes: bool. Whether strings stay bytes; otherwise, those that are UTF-8 are str.

    Raises:
        RequestError: if this client does not know its type or encoding, or its values do not fit its shape.
    """
    if tensor.dtype not in _FIELDS or tensor.tensor_content:
        raise RequestError(f"this client cannot read an output of the type with number {tensor.dtype}")
    flat = list(getattr(tensor, _FIELDS[tensor.dtype]))
    sizes = [dim.size for dim in tensor.tensor_shape.dim]
    if min(sizes, default=0) < 0 or math.prod(sizes) != len(flat):
        raise RequestError(f"an output of the shape {sizes} has {len(flat)} values")
    if tensor.dtype == _STRING and not as_bytes:
        flat = [_text(value) for value in flat]
    for axis in range(len(sizes) - 1, 0, -1):
        size, count = sizes[axis], math.prod(sizes[:axis])
        flat = [flat[index * size : (index + 1) * size] for index in range(count)]
    return flat if sizes else flat[0]


def _text(value):
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
