"""Checks that answers can be joined, as a batching server does with the parts of a request.

With `enable_large_batch_splitting`, TensorFlow Serving runs a large request in parts, and joins the parts of
every output along the batch. If they differ in another axis, such as one that is as long as the longest text
of a part, a check in tensor_util.cc fails and the server dies.
"""

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError


def parts(asked, graph):
    """Returns requests of one example, two per signature, which differ in length.

    They are the shortest and the longest example of all requests. If all are equally long, the second one is
    an example without its latter half. There are none for a signature whose batch size is fixed.

    Args:
        asked: list of (signature, {input: array}).
        graph: the SavedModel's `convnlp.export.verification.graph.Graph`.

    Returns:
        list of (signature, {input: array}, whether it was cut; if so, the model may reject it).
    """
    found = []
    for name in dict.fromkeys(name for name, _ in asked):
        specs = graph.input_specs(name)
        requests = [inputs for other, inputs in asked if other == name and _has_batch(inputs, specs)]
        if not requests:
            continue
        largest = max(requests, key=lambda inputs: len(next(iter(inputs.values()))))
        count = len(next(iter(largest.values())))
        examples = [{key: value[i : i + 1] for key, value in largest.items()} for i in range(count)]
        examples.sort(key=_length)
        longest = examples[-1]
        found.append((name, longest, False))
        if _length(examples[0]) < _length(longest):
            found.append((name, examples[0], False))
        else:
            found.append((name, {key: _cut(value) for key, value in longest.items()}, True))
    return found


def violations(rows, graphs):
    """Returns the outputs that cannot be joined.

    Args:
        rows: list of (directory, signature, loader, inputs, outputs) that have been answered.
        graphs: dict, directory -> its `Graph`.

    Returns:
        list of str, a line for each output.
    """
    found, shapes = {}, {}
    for directory, name, _, inputs, outputs in rows:
        if not _has_batch(inputs, graphs[directory].input_specs(name)):
            continue
        size = len(next(iter(inputs.values())))
        # Only requests whose examples have the same shape can share a batch.
        kind = tuple((key, value.dtype.str, value.shape[1:]) for key, value in sorted(inputs.items()))
        for key, value in outputs.items():
            where = directory, name, key
            if value.ndim == 0 or value.shape[0] != size:
                found[where] = f"the shape {list(value.shape)} for {size} examples"
                continue
            first = shapes.setdefault((*where, kind), (value.shape, value.dtype))
            if (value.shape[1:], value.dtype) != (first[0][1:], first[1]):
                both = f"{list(first[0])} and {list(value.shape)}"
                found.setdefault(where, f"the shapes {both} for two requests")
    return [
        f"output {key!r} of signature {name!r} of {directory} has {shapes}: a server that batches cannot join"
        " them, and TensorFlow Serving dies when it splits a request. Pad it to a fixed size"
        for (directory, name, key), shapes in found.items()
    ]


def _has_batch(inputs, specs):
    """Whether all inputs have equally many examples along a first axis of any size."""
    shapes = [specs[key][1] for key in inputs if key in specs]
    is_free = all(shape is None or (len(shape) > 0 and shape[0] is None) for shape in shapes)
    sizes = {len(value) if value.ndim else 0 for value in inputs.values()}
    return is_free and len(sizes) == 1 and 0 not in sizes


def _length(example):
    """Returns the length of an example: the bytes of its strings, and its numbers other than 0, the pad."""
    return sum(
        sum(map(len, value.flat)) if value.dtype == object else int(np.count_nonzero(value))
        for value in example.values()
    )


def _cut(value):
    """Returns the first half of each text, also in tf.Example messages, and of each row of integers."""
    if value.dtype == object:
        cut = np.empty_like(value)
        cut.flat = [_cut_string(string) for string in value.flat]
        return cut
    if value.dtype.kind in "iu" and value.ndim > 1:
        cut = value.copy()
        cut[:, value.shape[1] // 2 :] = 0
        return cut
    return value


def _cut_string(string):
    try:
        example = tf.train.Example.FromString(string)
    except DecodeError:
        example = tf.train.Example()
    for feature in example.features.feature.values():
        texts = feature.bytes_list.value
        texts[:] = [_cut_text(text) for text in texts]
    if example.features.feature:
        return example.SerializeToString()
    return _cut_text(string)


def _cut_text(string):
    return string[: len(string) // 2].decode("utf-8", "ignore").encode()
