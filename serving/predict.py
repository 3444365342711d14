"""The :predict method: a request's JSON to tensors, through a signature, and back."""

from serving.errors import invalid_argument
from serving.json_reader import Object, read
from serving.json_writer import write
from serving.tensors import outputs_json, predictions_json, tensors_from_inputs, tensors_from_instances


def predict(body, find_servable, timeout_ms=0):
    """Answers a predict request.

    Args:
        body: bytes. {"instances": [...]} or {"inputs": ...}, and "signature_name" if not the default one.
        find_servable: Callable without arguments that returns the `Servable` asked for. It is called once the
            body has been read, since a body that cannot be read is the error to report first.
        timeout_ms: int. How long the model may take; 0 for as long as it likes.

    Returns:
        str. {"predictions": [...]} or {"outputs": ...}, in the request's own format.

    Raises:
        ServingError: if the body is wrong, or the model fails.
    """
    document = read_object(body)
    name = signature_name(document)
    servable = find_servable()
    inputs = servable.signature(name or "serving_default").inputs
    if not inputs:
        raise invalid_argument(f"Failed to get input map for signature: {name or 'DEFAULT'}")
    instances, columns = document.find(b"instances"), document.find(b"inputs")
    if instances and columns:
        raise _format_error(
            document, "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist "
        )
    if columns:
        arrays = tensors_from_inputs(columns[1], inputs)
        return outputs_json(servable.run(name, arrays, timeout_ms))
    if not instances:
        raise invalid_argument("Missing 'inputs' or 'instances' key")
    if not isinstance(instances[1], list) or isinstance(instances[1], Object):
        raise _format_error(document, "Expecting 'instances' to be an list/array")
    if not instances[1]:
        raise _format_error(document, "No values in 'instances' array")
    arrays = tensors_from_instances(instances[1], inputs)
    return predictions_json(servable.run(name, arrays, timeout_ms))


def read_object(body):
    """Reads a body that must be an object."""
    document = read(body)
    if not isinstance(document, Object):
        raise _format_error(document, "Is not object")
    return document


def signature_name(document):
    """Returns the signature's name in the document, "" if it names none."""
    pair = document.find(b"signature_name")
    if pair and not isinstance(pair[1], bytes):
        raise _format_error(document, "not formatted correctly. 'signature_name' key must be a string value.")
    return pair[1].decode("utf-8", "surrogateescape") if pair else ""


def _format_error(document, message):
    return invalid_argument(f"JSON Value: {write(document, single_line_arrays=True)} {message}")
