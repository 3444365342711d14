"""Finds which operations of a TFLite model XNNPACK, the fast implementation, takes, and what each writes."""

import math

import numpy as np

from convnlp.export.operation import Operation, place

_DELEGATE = "DELEGATE"


def operations(content, batch_size, length):
    """Returns the operations of a model that takes token ids, in their order.

    The interpreter lists the parts that XNNPACK has taken as additional operations, with the tensors that go
    in and come out. An operation belongs to a part if it lies between those tensors.

    Args:
        content: bytes of the file.
        batch_size: int. B.
        length: int. T; the model is run with ids [B,T].

    Returns:
        (list of `Operation`, number of parts that XNNPACK has taken).

    Raises:
        ValueError: if it is not a TFLite model, or takes anything other than token ids.
    """
    from ai_edge_litert import interpreter as litert

    try:
        plain = litert.Interpreter(
            model_content=content,
            num_threads=1,
            experimental_op_resolver_type=litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
    except (ValueError, RuntimeError) as error:
        raise ValueError(
            "`model` must be a TFLite file or a SavedModel. Received: a file that is neither"
        ) from error
    plain = _asked(plain, [batch_size, length])
    fast = _asked(litert.Interpreter(model_content=content, num_threads=1), [batch_size, length])
    taken = _taken(fast._get_ops_details())
    tensors = {detail["index"]: detail for detail in plain.get_tensor_details()}
    found = []
    for operation in plain._get_ops_details():
        outputs = [tensors[index] for index in operation["outputs"]]
        size = sum(math.prod(each["shape"]) * np.dtype(each["dtype"]).itemsize for each in outputs)
        where = place(outputs[0]["name"])
        found.append(Operation(operation["op_name"], where, operation["index"] in taken, int(size)))
    return found, len(set(taken.values()))


def _asked(interpreter, shape):
    """Runs the interpreter and returns it: only then are the sizes of all tensors known."""
    inputs = interpreter.get_input_details()
    if len(inputs) != 1 or inputs[0]["dtype"] != np.int32:
        kinds = [f"{each['name']} {np.dtype(each['dtype']).name}" for each in inputs]
        raise ValueError(f"`model` must take token ids and nothing else. Received: inputs {', '.join(kinds)}")
    interpreter.resize_tensor_input(inputs[0]["index"], shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(inputs[0]["index"], np.ones(shape, np.int32))
    interpreter.invoke()
    return interpreter


def _taken(details):
    """Returns {index of an operation: index of the part of XNNPACK that contains it}."""
    makers = {tensor: each for each in details if each["op_name"] != _DELEGATE for tensor in each["outputs"]}
    taken = {}
    for part in details:
        if part["op_name"] != _DELEGATE:
            continue
        known, waiting = set(part["inputs"]), list(part["outputs"])
        while waiting:
            tensor = waiting.pop()
            maker = makers.get(tensor)  # None for a weight
            if tensor in known or maker is None or maker["index"] in taken:
                continue
            taken[maker["index"]] = part["index"]
            waiting += list(maker["inputs"])
    return taken
