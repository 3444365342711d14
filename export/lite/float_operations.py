"""Finds the operations of a calibrated TFLite model that must not be computed in int8.

An int8 tensor has 256 values for its whole range. Masks hide positions by very large negative values, beside
which all other values would become the same number; and a norm divides by its variance, a small number. So
softmax and norms are computed in float32, as everywhere in convnlp. So are sums and bounds, such as the
number of tokens, because the quantizer gives the inputs of a minimum the range of its output.

Sums of two tensors, and the products that go into them, are computed in float32 too. The K taps of a window,
and the sum to which each layer adds, would otherwise be rounded at every step; the maximum over a text, which
a classifier looks at, grows with such noise, and all logits would be off in the same direction. The
operations that write the answer are also in float32: they have few weights, and nothing behind them evens out
an error. What is in int8 are the products with matrices, which are nearly all of the weights and of the time,
the gates, and whatever looks up or moves values.
"""

import flatbuffers
from ai_edge_litert import schema_py_generated as schema

LARGEST = 1000.0  # above any activation of a trained model, and below the magnitude of any mask
_SUMS = {"ADD", "ADD_N", "SUB"}
_ALWAYS_FLOAT = {"SOFTMAX", "MEAN", "SUM", "SQUARE", "SQUARED_DIFFERENCE", "RSQRT", "SQRT", "DIV"} | _SUMS
_OF_A_VARIANCE = {"ADD", "MAXIMUM", "MUL", "SQUARE"}
_BOUNDS = {"MAXIMUM", "MINIMUM"}


def prepared(content):
    """Prepares a calibrated model for the quantizer.

    Args:
        content: bytes of a model with the ranges that the calibration found.

    Returns:
        (bytes of the model without the ranges around bounds, list of str: the tensors written by the
        operations that must stay in float32).
    """
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    names = {value: name for name, value in vars(schema.BuiltinOperator).items() if isinstance(value, int)}
    found = []
    for graph in model.subgraphs:
        kinds = [names[_builtin(model.operatorCodes[operator.opcodeIndex])] for operator in graph.operators]
        chosen = [
            index
            for index, operator in enumerate(graph.operators)
            if kinds[index] in _ALWAYS_FLOAT
            or set(operator.outputs) & set(graph.outputs)
            or any(_is_large(tensor) for tensor in _tensors(graph, operator))
        ]
        chosen += _before(graph, kinds, {"RSQRT", "SQRT"}, _OF_A_VARIANCE)
        chosen += _before(graph, kinds, _SUMS, {"MUL"})
        found += [graph.tensors[i].name.decode() for index in chosen for i in graph.operators[index].outputs]
        for kind, operator in zip(kinds, graph.operators, strict=True):
            if kind in _BOUNDS:
                for tensor in _tensors(graph, operator):
                    tensor.quantization = None
    return packed(model), sorted(set(found))


def packed(model):
    """Returns the bytes of a `schema.ModelT`."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def _before(graph, kinds, ends, between):
    """Returns the indices of operations of the kinds `between` that lead to one of the kinds `ends`."""
    makers = {tensor: index for index, operator in enumerate(graph.operators) for tensor in operator.outputs}
    found = set()
    for kind, operator in zip(kinds, graph.operators, strict=True):
        waiting = list(operator.inputs) if kind in ends else []
        while waiting:
            maker = makers.get(waiting.pop())
            if maker is not None and kinds[maker] in between and maker not in found:
                found.add(maker)
                waiting += list(graph.operators[maker].inputs)
    return sorted(found)


def _tensors(graph, operator):
    return [graph.tensors[i] for i in (*operator.inputs, *operator.outputs) if i >= 0]


def _builtin(code):
    return max(code.builtinCode, code.deprecatedBuiltinCode)  # the deprecated field has only one byte


def _is_large(tensor):
    """Whether the calibration saw values beyond `LARGEST` in a tensor."""
    ranges = tensor.quantization
    if ranges is None or ranges.min is None or ranges.max is None:
        return False
    return any(abs(value) > LARGEST for value in (*ranges.min, *ranges.max))
