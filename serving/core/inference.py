"""Turns requests into runs of a model's graph, and the fetched values into answers, for every interface.

Each method checks a signature, and says which tensors to feed and to fetch and how to make the answer from
the fetched values. REST, gRPC and the warm-up differ only in how they read requests and write answers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2

from convnlp.serving.core.errors import ServingError, invalid_argument

DEFAULT_SIGNATURE = "serving_default"
CLASSIFY_METHOD = "tensorflow/serving/classify"
REGRESS_METHOD = "tensorflow/serving/regress"
# Protobuf puts this before a message that is shown for debugging.
_DEBUG_MARK = "goo.gle/debugonly   \n"


@dataclass(frozen=True)
class Computation:
    """A run of a graph.

    Args:
        feeds: dict of str to array. Values by the names of tensors.
        fetches: tuple of str. The names of tensors.
        finish: Callable. Makes the answer from the list of fetched values.
    """

    feeds: dict
    fetches: tuple
    finish: Callable


def predict(signature, arrays, output_filter=()):
    """Feeds tensors to the inputs of a signature.

    Args:
        signature: SignatureDef.
        arrays: dict of str to array. A value for each input; inputs with a default may be missing.
        output_filter: sequence of str. The outputs to return; all of them if empty.

    Returns:
        `Computation`, finished as a dict of output name to array.

    Raises:
        ServingError: if the names do not match the signature.
    """
    names, defaults = sorted(signature.inputs), signature.defaults
    if len(arrays) > len(names) or (len(arrays) < len(names) and not defaults):
        sent, extra = sorted(arrays), sorted(arrays.keys() - signature.inputs.keys())
        missing = sorted(signature.inputs.keys() - arrays.keys())
        raise invalid_argument(
            f"input size does not match signature: {len(arrays)}!={len(names)} len({{{','.join(sent)}}}) !="
            f" len({{{','.join(names)}}}). Sent extra: {{{','.join(extra)}}}. Missing but required:"
            f" {{{','.join(missing)}}}."
        )
    feeds = {}
    for name, array in arrays.items():
        if name not in signature.inputs:
            raise invalid_argument(
                f"input tensor alias not found in signature: {name}. Inputs expected to be in the set"
                f" {{{','.join(names)}}}."
            )
        feeds[signature.inputs[name].name] = array
    for name in signature.inputs.keys() - arrays.keys():
        if name not in defaults:
            raise invalid_argument(f"input {name} is missing and has no default")
        feeds[signature.inputs[name].name] = tf.make_ndarray(defaults[name])
    for name in output_filter:
        if name not in signature.outputs:
            raise invalid_argument(
                f"output tensor alias not found in signature: {name} Outputs expected to be in the set"
                f" {{{','.join(sorted(signature.outputs))}}}."
            )
        if list(output_filter).count(name) > 1:
            raise invalid_argument(f"duplicate output tensor alias: {name}")
    outputs = list(output_filter) or sorted(signature.outputs)
    fetches = tuple(signature.outputs[name].name for name in outputs)
    return Computation(feeds, fetches, lambda values: dict(zip(outputs, values, strict=True)))


def example_signature(servable, name):
    """Returns the signature that a classify or regress request names.

    Raises:
        ServingError: if there is none.
    """
    name = name or DEFAULT_SIGNATURE
    if name not in servable.signatures:
        raise invalid_argument(f"No signature was found with the name: {name}")
    return servable.signatures[name]


def classify(signature, examples):
    """Asks for the classes of examples.

    Args:
        signature: SignatureDef. With the input "inputs" and the outputs "classes", "scores" or both.
        examples: list of bytes. Serialized tf.train.Example messages.

    Returns:
        `Computation`, finished as a list with one list of (label, score) per example; label is bytes.

    Raises:
        ServingError: if the signature is not for classification; when finishing, if its outputs are not.
    """
    count = len(signature.outputs)
    _check_inputs(signature, "classification", count in (1, 2), f"one or two output Tensors, found {count}")
    if "classes" not in signature.outputs and "scores" not in signature.outputs:
        raise invalid_argument(
            'Expected classification signature outputs to contain at least one of "classes" or "scores".'
            f" Signature was: {_DEBUG_MARK}{signature}"
        )
    kinds = [kind for kind in ("classes", "scores") if kind in signature.outputs]

    def finish(values):
        found = dict(zip(kinds, values, strict=True))
        for kind, array in found.items():
            _check_classes(kind, array, len(examples))
        classes, scores = found.get("classes"), found.get("scores")
        if classes is None:
            return [[(b"", score) for score in row] for row in scores.tolist()]
        if scores is None:
            return [[(label, 0.0) for label in row] for row in classes.tolist()]
        if classes.shape[1] != scores.shape[1]:
            raise invalid_argument(
                "Tensors class and score should match in dim_size(1). Got"
                f" {classes.shape[1]} vs. {scores.shape[1]}"
            )
        return [list(zip(*row, strict=True)) for row in zip(classes.tolist(), scores.tolist(), strict=True)]

    return Computation(
        _feeds(signature, examples), tuple(signature.outputs[kind].name for kind in kinds), finish
    )


def regress(signature, examples):
    """Asks for a number for each example.

    Args:
        signature: SignatureDef. With the input "inputs" and the output "outputs".
        examples: list of bytes. Serialized tf.train.Example messages.

    Returns:
        `Computation`, finished as a list of float.

    Raises:
        ServingError: if the signature is not for regression; when finishing, if its output is not.
    """
    _check_inputs(signature, "regression", len(signature.outputs) == 1, "one output Tensor.")
    if "outputs" not in signature.outputs:
        raise invalid_argument(f"No regression outputs found in SignatureDef: {_DEBUG_MARK}{signature}")

    def finish(values):
        (array,) = values
        if not (array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1)):
            raise invalid_argument(
                "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got"
                f" {_shape(array)}"
            )
        if len(array) != len(examples):
            raise invalid_argument(
                f"Input batch size did not match output batch size: {len(examples)} vs. {len(array)}"
            )
        if array.dtype != np.float32:
            raise invalid_argument(f"Expected output Tensor of DT_FLOAT.  Got: {_dtype(array)}")
        return array.reshape(-1).tolist()

    return Computation(_feeds(signature, examples), (signature.outputs["outputs"].name,), finish)


# The methods of a MultiInference task by their names.
_TASKS = {CLASSIFY_METHOD: classify, REGRESS_METHOD: regress}


def multi_inference(servable, tasks, examples):
    """Asks several classify and regress signatures about the same examples, in one run.

    Args:
        servable: `Servable`.
        tasks: list of (method name, signature name).
        examples: list of bytes. Serialized tf.train.Example messages.

    Returns:
        `Computation`, finished as a list of the results of the tasks.

    Raises:
        ServingError: if a task names an unknown signature, or two tasks name the same one.
    """
    parts, seen = [], set()
    for method, name in tasks:
        name = name or DEFAULT_SIGNATURE
        if name in seen:
            raise invalid_argument(f"Duplicate evaluation of signature: {name}")
        seen.add(name)
        if name not in servable.signatures:
            raise invalid_argument(f"Requested signature not found in model graph: {name}")
        if method not in _TASKS:
            raise ServingError("UNIMPLEMENTED", f"Unsupported signature method_name: {method}")
        parts.append(_TASKS[method](servable.signatures[name], examples))
    feeds = {tensor: array for part in parts for tensor, array in part.feeds.items()}
    fetches = tuple(sorted({tensor for part in parts for tensor in part.fetches}))

    def finish(values):
        fetched = dict(zip(fetches, values, strict=True))
        return [part.finish([fetched[tensor] for tensor in part.fetches]) for part in parts]

    return Computation(feeds, fetches, finish)


def _check_inputs(signature, kind, outputs_fit, expected_outputs):
    if len(signature.inputs) != 1:
        raise invalid_argument("Expected one input Tensor.")
    if not outputs_fit:
        raise invalid_argument(f"Expected {expected_outputs}")
    if "inputs" not in signature.inputs:
        raise invalid_argument(f"No {kind} inputs found in SignatureDef: {_DEBUG_MARK}{signature}")


def _feeds(signature, examples):
    if not examples:
        raise invalid_argument("Input is empty.")
    return {signature.inputs["inputs"].name: np.array(examples, object)}


def _check_classes(kind, array, num_examples):
    """Checks that classes are strings and scores float32, each [examples, classes]."""
    if array.ndim != 2:
        raise invalid_argument(f"Expected Tensor shape: [batch_size num_classes] but got {_shape(array)}")
    expected = {"classes": ("DT_STRING", object), "scores": ("DT_FLOAT", np.float32)}
    name, dtype = expected[kind]
    if array.dtype != dtype:
        raise invalid_argument(f"Expected {kind} Tensor of {name}. Got: {_dtype(array)}")
    if len(array) != num_examples:
        raise invalid_argument(f"Expected {kind} output batch size of {num_examples}. Got: {len(array)}")


def _shape(array):
    return str(list(array.shape)).replace(" ", "")


def _dtype(array):
    return types_pb2.DataType.Name(tf.as_dtype(array.dtype).as_datatype_enum)
