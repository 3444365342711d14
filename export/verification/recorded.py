"""Requests to SavedModels of unknown origin: those recorded beside them, else made-up ones."""

import math
import pathlib

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from convnlp.export.verification import requests

WARM_UP = pathlib.Path("assets.extra", "tf_serving_warmup_requests")
_MAX_ELEMENTS = 2**24


def of_saved_model(directory, graph):
    """Returns requests to every signature of a SavedModel.

    These are the ones recorded in `assets.extra/tf_serving_warmup_requests`, and the largest of them with its
    rows repeated to batch 1, 2 and 5, and cut to an odd length if its inputs have a length. If there are
    none, the values are made up from the signature's shapes and types: ones for integers, a normal
    distribution for floats, texts for strings, and an empty tf.Example if the method classifies or regresses.

    Args:
        directory: str or path. The SavedModel.
        graph: its `convnlp.export.verification.graph.Graph`.

    Returns:
        (list of (signature, {input: array}), list of the signatures with made-up values).
    """
    recorded = _warm_up(pathlib.Path(directory, WARM_UP))
    asked, made_up = [], []
    for name in sorted(graph.signatures):
        specs = graph.input_specs(name)
        known = recorded.get(name, [])
        if not known:
            made_up.append(name)
        asked += [(name, inputs) for inputs in known]
        largest = max(known or [_made_up(graph, name, specs)], key=_size)
        asked += [(name, inputs) for inputs in _variants(largest, specs)]
    return asked, made_up


def _warm_up(path):
    """Returns {signature: list of inputs, each a dict} from a file of PredictionLogs; {} if there is none."""
    from tensorflow_serving.apis import prediction_log_pb2

    found = {}
    if not path.is_file():
        return found
    for number, record in enumerate(tf.data.TFRecordDataset(str(path)).as_numpy_iterator(), 1):
        try:
            log = prediction_log_pb2.PredictionLog.FromString(record)
        except DecodeError as error:
            raise ValueError(f"{path}: record {number} is not a PredictionLog ({error})") from error
        kind = log.WhichOneof("log_type")
        if kind not in ("predict_log", "classify_log", "regress_log"):
            continue
        request = getattr(log, kind).request
        if kind == "predict_log":
            inputs = {name: _array(value, path) for name, value in request.inputs.items()}
        else:
            inputs = {"inputs": np.array(_examples(request.input), object)}
            if not inputs["inputs"].size:
                continue
        found.setdefault(request.model_spec.signature_name or "serving_default", []).append(inputs)
    return found


def _examples(message):
    """Returns the serialized examples of an Input, each preceded by the context that they share."""
    kind = message.WhichOneof("kind")
    if kind is None:
        return []
    shared = message.example_list_with_context.context.SerializeToString()  # b"" in a plain list
    return [shared + example.SerializeToString() for example in getattr(message, kind).examples]


def _array(proto, path):
    """Returns the array of a TensorProto, which may declare far more elements than it holds values."""
    sizes = [dim.size for dim in proto.tensor_shape.dim]
    if min(sizes, default=0) < 0 or math.prod(sizes) > _MAX_ELEMENTS:
        raise ValueError(
            f"{path}: tensors must have at most {_MAX_ELEMENTS} elements. Received: shape={sizes}"
        )
    try:
        return tf.make_ndarray(proto)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: a tensor does not hold what it declares") from error


def _made_up(graph, name, specs):
    rng = np.random.default_rng(0)
    inputs = {}
    for key, (dtype, shape) in specs.items():
        dims = [None] if shape is None else list(shape)
        size = [
            dim or (max(requests.BATCH_SIZES) if axis == 0 else 2 * max(requests.BATCH_SIZES) - 1)
            for axis, dim in enumerate(dims)
        ]
        if dtype.kind == "f":
            inputs[key] = rng.normal(size=size).astype(dtype)
        elif dtype.kind != "O":
            inputs[key] = np.ones(size, dtype)
        elif graph.signatures[name].method_name.endswith(("classify", "regress")):
            inputs[key] = np.full(size, b"", object)
        else:
            texts = np.array([text.encode() for text in requests.texts(max(requests.BATCH_SIZES))], object)
            inputs[key] = np.resize(texts, size)
    return inputs


def _variants(inputs, specs):
    """Returns the inputs at batch 1, 2 and 5 and at odd lengths, if the shapes of the signature allow it."""
    shapes = {name: shape for name, (_, shape) in specs.items() if name in inputs}
    is_free = [shape is None or (len(shape) > 0 and shape[0] is None) for shape in shapes.values()]
    if not all(is_free):
        return [inputs]
    has_length = all(shape and len(shape) > 1 and shape[1] is None for shape in shapes.values())
    found = []
    for batch_size in requests.BATCH_SIZES:
        rows = {
            name: np.resize(value, (batch_size, *value.shape[1:]))  # cuts, or repeats from the first row on
            for name, value in inputs.items()
        }
        found.append(rows)
        if has_length:
            found.append(requests.odd_length(rows, batch_size))
    return found


def _size(inputs):
    return sum(value.size for value in inputs.values())
