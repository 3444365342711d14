"""The :predict method: the JSON of a request to tensors, and the outputs of a signature to JSON."""

from convnlp.serving.core import inference
from convnlp.serving.core.errors import invalid_argument
from convnlp.serving.rest.json_reader import UNREAD, Object, is_array, read, read_quickly
from convnlp.serving.rest.json_writer import shown
from convnlp.serving.rest.tensors import (
    outputs_json,
    predictions_json,
    tensors_from_inputs,
    tensors_from_instances,
)


def predict_json(document, find_servable, limits):
    """Reads a predict request.

    Args:
        document: `Object`. {"instances": [...]} or {"inputs": ...}, optionally with "signature_name".
        find_servable: Callable without arguments that returns the requested `Servable`.
        limits: `Limits`. How large a batch may be.

    Returns:
        The `Servable`, the `Computation`, and a Callable that writes its result: {"predictions": [...]} or
        {"outputs": ...}, in the format of the request.

    Raises:
        ServingError: if the document is invalid.
    """
    name = signature_name(document)
    servable = find_servable()
    signature = servable.signatures.get(name or inference.DEFAULT_SIGNATURE)
    if signature is None:
        raise invalid_argument(
            f'Serving signature name: "{name or inference.DEFAULT_SIGNATURE}" not found in signature def'
        )
    if not signature.inputs:
        raise invalid_argument(f"Failed to get input map for signature: {name or 'DEFAULT'}")
    inputs = dict(signature.inputs)  # a protobuf map does not accept names that are not UTF-8
    instances, columns = document.find(b"instances"), document.find(b"inputs")
    if instances and columns:
        raise format_error(
            document, "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist "
        )
    if columns:
        _check_columns(columns[1], limits)
        arrays = tensors_from_inputs(columns[1], inputs)
        return servable, inference.predict(signature, arrays), outputs_json
    if not instances:
        raise invalid_argument("Missing 'inputs' or 'instances' key")
    if not is_array(instances[1]):
        raise format_error(document, "Expecting 'instances' to be an list/array")
    if not instances[1]:
        raise format_error(document, "No values in 'instances' array")
    limits.check_batch_size(len(instances[1]))
    arrays = tensors_from_instances(instances[1], inputs)
    return servable, inference.predict(signature, arrays), predictions_json


def _check_columns(value, limits):
    """Refuses batches that are too large before tensors are made."""
    for column in [item for _, item in value] if isinstance(value, Object) else [value]:
        if is_array(column):
            limits.check_batch_size(len(column))


def read_object(body, quickly=False):
    """Reads a body that must be an object.

    Args:
        body: bytes.
        quickly: bool. Whether to return `UNREAD` if reading would take a microsecond per byte.

    Returns:
        `Object`, or `UNREAD`.

    Raises:
        ServingError: if the body is not an object.
    """
    document = read_quickly(body) if quickly else read(body)
    if document is not UNREAD and not isinstance(document, Object):
        raise format_error(document, "Is not object")
    return document


def signature_name(document):
    """Returns the name of the signature in the document, or "" if it names none.

    Raises:
        ServingError: if the name is not a string.
    """
    pair = document.find(b"signature_name")
    if pair and not isinstance(pair[1], bytes):
        raise format_error(document, "not formatted correctly. 'signature_name' key must be a string value.")
    return pair[1].decode("utf-8", "surrogateescape") if pair else ""


def format_error(document, message):
    """Returns the error of a document that is JSON, but not a request."""
    return invalid_argument(f"JSON Value: {shown(document)} {message}")
