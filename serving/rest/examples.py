"""The :classify and :regress methods: JSON objects to tf.train.Example messages, and answers to JSON."""

import tensorflow as tf

from convnlp.serving.core.errors import invalid_argument
from convnlp.serving.core.inference import classify, example_signature, regress
from convnlp.serving.rest.json_reader import Object, is_array
from convnlp.serving.rest.json_writer import bracket, float32_decimal, quote
from convnlp.serving.rest.predict import format_error, signature_name
from convnlp.serving.rest.tensors import base64_decoded, is_base64, rows_json, type_name

_PLAIN_KINDS = {int: "int64_list", float: "float_list", bytes: "bytes_list"}
_KINDS = {"int64_list": "int64", "float_list": "float", "bytes_list": "bytes"}


def read_examples(document, limits):
    """Reads the examples of a request.

    Args:
        document: `Object`. With "examples", a list of objects of features, and optionally "context", an
            object of features that all examples share.
        limits: `Limits`. How many examples there may be.

    Returns:
        list of bytes. Serialized tf.train.Example messages, each preceded by the context.

    Raises:
        ServingError: if an example is invalid; the message names the feature.
    """
    context = document.find(b"context")
    shared = _example(context[1]) if context else b""
    pair = document.find(b"examples")
    if not pair:
        raise format_error(document, "When method is classify, key 'examples' is expected and was not found")
    examples = pair[1]
    if not is_array(examples):
        raise format_error(document, "Expecting 'examples' value to be an list/array")
    if not examples:
        raise format_error(document, "'examples' value is an empty array")
    limits.check_batch_size(len(examples))
    limits.check_bytes(len(shared) * len(examples), f"The context of {len(examples)} examples")
    return [shared + _example(value) for value in examples]


def classify_json(document, find_servable, limits):
    """Reads a classify request; see `convnlp.serving.rest.predict.predict_json` for the arguments.

    Returns:
        The `Servable`, the `Computation`, and a Callable that writes its result:
        {"results": [[["label", score], ...], ...]}.
    """
    servable, computation = _read(document, find_servable, limits, classify)
    return servable, computation, classifications_json


def regress_json(document, find_servable, limits):
    """Reads a regress request; see `convnlp.serving.rest.predict.predict_json` for the arguments.

    Returns:
        The `Servable`, the `Computation`, and a Callable that writes its result: {"results": [number, ...]}.
    """
    servable, computation = _read(document, find_servable, limits, regress)
    return servable, computation, regressions_json


def classifications_json(results):
    """Writes classes with their scores, one array per example."""
    rows = [
        "[" + ", ".join(f"[{quote(label)}, {float32_decimal(score)}]" for label, score in row) + "]"
        for row in results
    ]
    return bracket([f'"results": {rows_json(rows)}'], "{}", 0, False)


def regressions_json(results):
    """Writes one number per example."""
    values = ", ".join(map(float32_decimal, results))
    return bracket([f'"results": [{values}]'], "{}", 0, False)


def _read(document, find_servable, limits, method):
    name = signature_name(document)
    examples = read_examples(document, limits)
    servable = find_servable()
    return servable, method(example_signature(servable, name), examples)


def _example(value):
    """Serializes one example. Of several features with the same name, the last one counts."""
    if not isinstance(value, Object):
        raise invalid_argument(f"Example must be JSON object but got JSON {type_name(value)}")
    example = tf.train.Example()
    for key, content in value:
        name = key.split(b"\0")[0]  # ends at a NUL character, as in C
        is_list = is_array(content)
        feature = tf.train.Feature()
        if not (is_list and _add_plain(content, feature)):
            for element in content if is_list else [content]:
                _add(element, name.decode("utf-8", "surrogateescape"), feature)
        example.features.feature[name.decode("utf-8", "replace")].CopyFrom(feature)
    return example.SerializeToString()


def _add_plain(values, feature):
    """Fills a feature with values if all have the same plain type; returns whether they have."""
    kinds = set(map(type, values))
    kind = _PLAIN_KINDS.get(kinds.pop()) if len(kinds) == 1 else None
    if kind is None or (kind == "int64_list" and max(values) >= 2**63):
        return False
    getattr(feature, kind).value.extend(values)
    return True


def _add(value, name, feature):
    """Appends a value to a feature; all values of a feature must be of the same kind."""
    if isinstance(value, bool | int):
        kind = "int64_list"
    elif isinstance(value, float):
        kind = "float_list"
    elif isinstance(value, bytes) or is_base64(value):
        kind = "bytes_list"
    else:
        raise invalid_argument(f"Feature: {name} has element with unexpected JSON type: {type_name(value)}")
    present = feature.WhichOneof("kind")
    if present not in (None, kind):
        raise invalid_argument(
            f"Unexpected element type in feature: {name} expecting type: {_KINDS[present]}"
        )
    if isinstance(value, int) and value >= 2**63:
        raise invalid_argument(f"Feature: {name} has uint64_t element. Only int64_t is supported.")
    if isinstance(value, bool):
        value = int(value)
    getattr(feature, kind).value.append(base64_decoded(value) if isinstance(value, Object) else value)
