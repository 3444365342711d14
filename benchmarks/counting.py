"""Counts in a traced graph, to check the formulae of `cost()`."""

import collections
import math

import tensorflow as tf

_SUMS = ("Add", "AddV2", "AddN", "Sub", "Sum")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def multiply_adds(function, *specs):
    """Returns the multiply-adds of one call, by type of operation.

    The count includes matrix products, convolutions, einsums, Fourier transforms (N log2 N complex
    products, each four real ones), and elementwise products that are then summed, as in a sum of shifted
    copies. It does not include other elementwise operations, such as gates, softmax and divisions; the
    scale and shift of a norm are a product and a sum, and do count. A product with a one-hot tensor is a
    look-up and does not count.

    Args:
        function: function of tensors. It is traced with the kernels in use, see
            `convnlp.kernels.implementation`; only "plain" hides nothing in custom gradients and islands.
        *specs: tf.TensorSpec of its arguments, with known shapes.

    Returns:
        collections.Counter, type of operation -> int.

    Raises:
        ValueError: if a shape is unknown, or an operation calls a function.

    Example:
    >>> spec = tf.TensorSpec([2, 3])
    >>> multiply_adds(lambda x: tf.matmul(x, x, transpose_b=True), spec)
    Counter({'MatMul': 12})
    """
    concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
    outputs = [tensor.op for tensor in concrete.graph.outputs]
    counts = collections.Counter()
    for op in _needed(outputs):
        if op.type in _CALLS or "While" in op.type:
            raise ValueError(f"cannot look into {op.name}, a {op.type}")
        if count := _count(op):
            counts[op.type] += count
    return counts


def _needed(outputs):
    """Returns the operations that the outputs depend on."""
    seen, waiting = set(), list(outputs)
    while waiting:
        op = waiting.pop()
        if op not in seen:
            seen.add(op)
            waiting += [tensor.op for tensor in op.inputs]
    return seen


def _count(op):
    if any(tensor.op.type == "OneHot" for tensor in op.inputs):
        return 0
    if op.type == "MatMul":
        return _size(op.outputs[0]) * _shape(op.inputs[0])[0 if op.get_attr("transpose_a") else 1]
    if op.type in ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"):
        return _size(op.outputs[0]) * _shape(op.inputs[0])[-2 if op.get_attr("adj_x") else -1]
    if op.type == "Einsum":
        letters = {}
        inputs, _, _ = op.get_attr("equation").decode().partition("->")
        for term, tensor in zip(inputs.split(","), op.inputs, strict=True):
            letters |= dict(zip(term, _shape(tensor), strict=True))
        return math.prod(letters.values())
    if op.type == "Conv2D":
        return _size(op.outputs[0]) * math.prod(_shape(op.inputs[1])[:3])
    if op.type == "DepthwiseConv2dNative":
        return _size(op.outputs[0]) * math.prod(_shape(op.inputs[1])[:2])
    if op.type in ("FFT", "FFT2D", "RFFT", "RFFT2D"):
        axes = _shape(op.inputs[0])[-2 if op.type.endswith("2D") else -1 :]
        return int(4 * _size(op.outputs[0]) * math.log2(math.prod(axes)))
    if op.type == "Mul" and op.outputs[0].dtype.is_floating:
        return _size(op.outputs[0]) * all(user.type in _SUMS for user in op.outputs[0].consumers())
    return 0


def _size(tensor):
    return math.prod(_shape(tensor))


def _shape(tensor):
    if not tensor.shape.is_fully_defined():
        raise ValueError(f"{tensor.name} must have a known shape. Received: {tensor.shape}")
    return tensor.shape.as_list()


def receptive_field(function, x, position):
    """Returns the distance from the first to the last input that one output depends on, both included.

    Args:
        function: differentiable function, [1,T,D] -> [1,T,D].
        x: float tensor [1,T,D].
        position: int, position of the output.

    Returns:
        int.
    """
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(function(x)[:, position])
    seen = tf.where(tf.reduce_any(tape.gradient(y, x)[0] != 0, axis=1))[:, 0]  # [number of inputs seen]
    return int(seen[-1] - seen[0]) + 1
