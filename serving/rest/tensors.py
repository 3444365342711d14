"""Converts JSON values to tensors and back, with the rules and messages of TF Serving's REST interface."""

import base64
import binascii
import functools
import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from convnlp.serving.core.errors import ServingError, invalid_argument
from convnlp.serving.rest.json_reader import Object, is_array
from convnlp.serving.rest.json_writer import bracket, decimal, float32_decimal, quote, shown, write

# NumPy's own limit; TF Serving's is 254.
_MAX_RANK = 64
_TYPE_NAMES = {
    bytes: "String",
    Object: "Object",
    list: "Array",
    int: "Number",
    float: "Number",
    type(None): "Null",
}
_READABLE = {tf.as_dtype(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)} - {
    tf.uint16
}
_READABLE |= {tf.float32, tf.float64, tf.bool, tf.string}
# TF Serving reads these as int32 and then truncates: 200 becomes -56 as an int8.
_WRAPPED = {tf.int8, tf.int16, tf.uint8}
_RANGES = {
    dtype: (tf.int32.min, tf.int32.max) if dtype in _WRAPPED else (dtype.min, dtype.max)
    for dtype in _READABLE
    if dtype.is_integer
}


class _TooManyDimensionsError(Exception):
    """Raised for a tensor that NumPy cannot hold."""


@dataclass(frozen=True)
class _Kind:
    """The properties of a type that each value needs; asking a DType takes longer than reading a request."""

    dtype: tf.DType
    is_readable: bool
    is_string: bool
    is_bool: bool
    is_floating: bool
    limits: tuple | None
    read_as: object
    numpy: object


@functools.cache
def _kind(number):
    """Returns the `_Kind` of a type, given its number in the DataType enumeration."""
    dtype = tf.as_dtype(number)
    is_string = dtype == tf.string
    return _Kind(
        dtype=dtype,
        is_readable=dtype in _READABLE,
        is_string=is_string,
        is_bool=dtype == tf.bool,
        is_floating=dtype.is_floating,
        limits=_RANGES.get(dtype),
        read_as=object if is_string else (tf.int32 if dtype in _WRAPPED else dtype).as_numpy_dtype,
        numpy=dtype.as_numpy_dtype,
    )


def tensors_from_instances(instances, inputs):
    """Reads the row format: one element per example, each a value or an object with a value for every input.

    Args:
        instances: list. The value of "instances"; not empty.
        inputs: dict of str to TensorInfo. The inputs of the signature.

    Returns:
        dict of str to array, with the batch on axis 0.

    Raises:
        ServingError: if an element does not fit; the message names the element and the input.
    """
    if len(inputs) > 1 and not isinstance(instances[0], Object):
        raise invalid_argument(
            "instances is a plain list, but expecting list of objects as multiple input tensors required"
            " as per tensorinfo_map"
        )
    names = sorted(inputs)
    if len(names) == 1 and _are_plain(instances, _kind(inputs[names[0]].dtype)):  # such as texts
        return {names[0]: _array(instances, (len(instances),), inputs[names[0]])}
    rows_are_objects = _is_row_object(instances[0])
    shapes, values = {}, {name: [] for name in names}
    for index, row in enumerate(instances):
        if _is_row_object(row) != rows_are_objects:
            expected, got = ("object", "list") if rows_are_objects else ("value/list", "object")
            raise invalid_argument(f"Expecting {expected} but got {got} at item {index} of input list")
        pairs = [(_name(key), value) for key, value in row] if rows_are_objects else [(names[0], row)]
        for name, value in pairs:
            try:
                _add_row(name, value, inputs, shapes, values)
            except _TooManyDimensionsError as error:
                raise invalid_argument(f"tensor parsing error: {name}") from error
            except ServingError as error:
                key = f" key: {name}" if rows_are_objects else ""
                where = f"element: {index}{key} of 'instances' list"
                raise invalid_argument(f"Failed to process {where}. Error: {error}") from error
        if {name for name, _ in pairs} != inputs.keys():
            raise invalid_argument(
                f"Failed to process element: {index} of 'instances' list. JSON object: {shown(row)} keys"
                f" must be equal to: {','.join(names)}"
            )
    return {name: _array(values[name], (len(instances), *shapes[name]), inputs[name]) for name in names}


def tensors_from_inputs(value, inputs):
    """Reads the column format: the whole tensor of the only input, or an object with one for every input.

    Args:
        value: The value of "inputs".
        inputs: dict of str to TensorInfo. The inputs of the signature.

    Returns:
        dict of str to array.

    Raises:
        ServingError: if an input is missing or its value does not fit.
    """
    if not _is_row_object(value):
        if len(inputs) > 1:
            raise invalid_argument(
                "inputs is a plain value/list, but expecting an object as multiple input tensors required"
                " as per tensorinfo_map"
            )
        columns = {next(iter(inputs)): value}
    else:
        columns = {}
        for key, item in value:
            columns.setdefault(_name(key), item)
    arrays = {}
    for name in sorted(inputs):
        if name not in columns:
            raise invalid_argument(f"Missing named input: {name} in 'inputs' object.")
        try:
            shape, flat = _dense(columns[name], inputs[name])
        except _TooManyDimensionsError as error:
            raise invalid_argument(f"tensor parsing error: {name}") from error
        arrays[name] = _array(flat, shape, inputs[name])
    return arrays


def predictions_json(outputs):
    """Writes the row format of an answer: one element per example, an object if there are several outputs.

    Args:
        outputs: dict of str to array.

    Returns:
        str. The document {"predictions": [...]}.

    Raises:
        ServingError: if the outputs do not all have the same batch axis.
    """
    batch_size = None
    for name, array in outputs.items():
        if array.ndim == 0:
            raise invalid_argument(f"Tensor name: {name} has no shape information ")
        if batch_size not in (None, len(array)):
            raise invalid_argument(
                f"Tensor name: {name} has inconsistent batch size: {len(array)} expecting: {batch_size}"
            )
        batch_size = len(array)
    columns = {name: _json_values(name, array) for name, array in outputs.items()}
    if len(columns) > 1:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    else:
        (rows,) = columns.values()
    items = [write(row, level=2, single_line_arrays=True) for row in rows]
    return bracket([f'"predictions": {rows_json(items, rows_are_objects=len(columns) > 1)}'], "{}", 0, False)


def rows_json(items, rows_are_objects=False):
    """Writes the array of an answer's rows: each object on its own line, values all on one line."""
    if rows_are_objects or not items:
        return bracket(items, "[]", 1, False)
    return "[" + ", ".join(items) + "\n    ]"


def outputs_json(outputs):
    """Writes the column format of an answer: the whole tensor, or an object with the tensor of each output.

    Args:
        outputs: dict of str to array.

    Returns:
        str. The document {"outputs": ...}.
    """
    columns = {name: _json_values(name, array) for name, array in outputs.items()}
    return write({"outputs": columns if len(columns) > 1 else next(iter(columns.values()))})


def _is_row_object(value):
    """Whether a value is an object, but not {"b64": "..."}, which is a string."""
    return isinstance(value, Object) and not is_base64(value)


def is_base64(value):
    """Whether a value is {"b64": "..."} and nothing else."""
    if not isinstance(value, Object) or len(value) != 1:
        return False
    ((key, text),) = value
    return key == b"b64" and isinstance(text, bytes)


def _name(key):
    """Returns the name of an input, which ends at a NUL character, as in C."""
    return key.split(b"\0")[0].decode("utf-8", "surrogateescape")


def _add_row(name, value, inputs, shapes, values):
    """Appends one example's value of one input; all examples must have the same shape."""
    if name not in inputs:
        raise invalid_argument(f"JSON object: does not have named input: {name}")
    shape, flat = _dense(value, inputs[name])
    expected = shapes.setdefault(name, shape)
    if math.prod(expected) != len(flat):
        raise invalid_argument(f"Expecting tensor size: {math.prod(expected)} but got: {len(flat)}")
    if shape != expected:
        listed = [str(list(dims)).replace(" ", "") for dims in (expected, shape)]
        raise invalid_argument(f"Expecting shape {listed[0]} but got: {listed[1]}")
    values[name].extend(flat)


def _dense(value, info):
    """Returns shape and flat values; the first elements define the shape, and all others must agree."""
    shape, first = [], value
    while is_array(first):
        shape.append(len(first))
        if not first:
            break
        first = first[0]
    if len(shape) > _MAX_RANK:
        raise _TooManyDimensionsError
    flat = []
    _fill(value, 0, shape, _kind(info.dtype), flat)
    return tuple(shape), flat


def _fill(value, level, shape, kind, flat):
    if not is_array(value):
        if level != len(shape):
            raise invalid_argument(
                f"JSON Value: {shown(value)} found at incorrect level: {level + 1} in the JSON DOM."
                f" Expected at level: {len(shape)}"
            )
        flat.append(_element(value, kind))
        return
    if level >= len(shape):
        raise invalid_argument(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise invalid_argument(
            f"Encountered list at unexpected size: {len(value)} at level: {level}"
            f" expected size: {shape[level]}"
        )
    if level == len(shape) - 1 and _are_plain(value, kind):
        flat.extend(value)
        return
    for item in value:
        _fill(item, level + 1, shape, kind, flat)


def _are_plain(values, kind):
    """Whether all values of a flat list fit the type; a fast check of the common case."""
    types = set(map(type, values))
    if kind.limits:
        low, high = kind.limits
        return types == {int} and low <= min(values) and max(values) <= high
    if kind.is_string:
        return types == {bytes}
    if kind.is_bool:
        return types == {bool}
    return kind.is_readable and kind.is_floating and bool(types) and types <= {int, float}


def _element(value, kind):
    """Returns the value if the type can hold it."""
    found = type(value)
    if found is Object:  # before the type is considered, as in TF Serving
        if kind.is_string:
            return base64_decoded(value)
        raise _type_error(value, kind.dtype)
    if not kind.is_readable:
        raise ServingError(
            "UNIMPLEMENTED", f"Conversion of JSON Value: {shown(value)} to type: {dtype_name(kind.dtype)}"
        )
    if kind.is_string:
        fits = found is bytes
    elif kind.is_bool:
        fits = found is bool
    elif kind.limits:
        low, high = kind.limits
        fits = found is int and low <= value <= high
    else:
        fits = found in (int, float)
    if not fits:
        raise _type_error(value, kind.dtype)
    return value


def _type_error(value, dtype):
    return invalid_argument(
        f"JSON Value: {shown(value)} Type: {type_name(value)} is not of expected type: {dtype_name(dtype)}"
    )


def type_name(value):
    """Returns the name of a JSON value's type."""
    return str(value) if isinstance(value, bool) else _TYPE_NAMES[type(value)]


def base64_decoded(value):
    """Returns the bytes of {"b64": "..."}: standard base64, with or without padding.

    Raises:
        ServingError: if there is something else, or it does not decode.
    """
    if not is_base64(value):
        raise invalid_argument(f"JSON Value: {shown(value)} not formatted correctly for base64 data")
    text = value[0][1].rstrip(b"=")
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except binascii.Error as error:
        raise invalid_argument("Unable to base64 decode") from error


def _array(flat, shape, info):
    """Makes the array. Values beyond its end are dropped: a key given twice has shifted all later rows."""
    kind = _kind(info.dtype)
    if kind.is_floating:
        with np.errstate(over="ignore"):  # a float beyond float32 is infinite, as in TF Serving
            array = np.array(flat, kind.read_as)
    else:
        array = np.array(flat, kind.read_as)
    return array[: math.prod(shape)].reshape(shape).astype(kind.numpy, copy=False)


def _json_values(name, array):
    """Returns the tensor as nested lists of JSON text."""
    kind = _kind_of(array.dtype)
    if not kind.is_readable:
        raise invalid_argument(f"Failed to write JSON value for tensor type: {dtype_name(kind.dtype)}")
    if kind.is_string:
        to_json = _base64_object if name.endswith("_bytes") else quote
    elif kind.is_floating:
        to_json = decimal if kind.dtype == tf.float64 else float32_decimal
    else:
        to_json = write
    if array.ndim == 1:
        return [to_json(value) for value in array.tolist()]
    texts = np.empty(array.size, object)
    texts[:] = [to_json(value) for value in array.reshape(-1).tolist()]
    return texts.reshape(array.shape).tolist()


@functools.cache
def _kind_of(numpy_dtype):
    return _kind(tf.as_dtype(numpy_dtype).as_datatype_enum)


def _base64_object(value):
    return {b"b64": base64.b64encode(value)}


def dtype_name(dtype):
    """Returns the name of a type in TensorFlow's C++ code."""
    return {"float32": "float", "float64": "double", "float16": "half"}.get(dtype.name, dtype.name)
