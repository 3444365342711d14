"""Which operations of a calibrated TFLite model must not be computed in int8.

An int8 tensor has 256 values for its whole range. Masks hide positions with very large negative values,
beside which all others would be the same number; and the variance of a norm is a small number that is divided
by. As everywhere in convnlp, softmax and norms compute in float32. So do sums and bounds, such as the number
of tokens: the quantizer gives what goes into a minimum the range of what comes out.

So do the sums of two tensors, with the products that go into them. A window of K taps, and what the layers
add to a text one after the other, would be rounded at each step, and the largest value over a text, which a
classifier looks at, grows with such noise: all logits would be off to the same side. And so does what gives
the answer, a few weights behind which nothing evens an error out. In int8 are the products with matrices,
which are nearly all of the weights and of the time, gates, and what moves or looks up.
"""

import flatbuffers
from ai_edge_litert import schema_py_generated as schema

LARGEST = 1000.0  # no activation of a trained model comes near it, and no mask is below it
_SUMS = {"ADD", "ADD_N", "SUB"}
_ALWAYS_FLOAT = {"SOFTMAX", "MEAN", "SUM", "SQUARE", "SQUARED_DIFFERENCE", "RSQRT", "SQRT", "DIV"} | _SUMS
_OF_A_VARIANCE = {"ADD", "MAXIMUM", "MUL", "SQUARE"}
_BOUNDS = {"MAXIMUM", "MINIMUM"}


def prepared(content):
    """A calibrated model as the quantizer should see it.

    Args:
        content: bytes of a model with the ranges that its calibration has found.

    Returns:
        (bytes of the model without the ranges around bounds, list of str: the tensors written by operations
        that are to stay in float32).
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
    """The bytes of a `schema.ModelT`."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def _before(graph, kinds, ends, between):
    """The indices of the operations of some kinds right before those of other kinds, one after the other."""
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
    return max(code.builtinCode, code.deprecatedBuiltinCode)  # old readers have one byte for it


def _is_large(tensor):
    """Whether the calibration has seen values beyond `LARGEST` in a tensor."""
    ranges = tensor.quantization
    if ranges is None or ranges.min is None or ranges.max is None:
        return False
    return any(abs(value) > LARGEST for value in (*ranges.min, *ranges.max))
