"""Which operations of a calibrated TFLite model must not be computed in int8.

An int8 tensor has 256 values for its whole range. Masks hide positions with values such as -1e9, beside which
all others would be the same number; and the variance of a norm is a small number that is divided by. As
everywhere in convnlp, softmax and norms compute in float32. So do sums and bounds, such as the number of
tokens: the quantizer gives what goes into a minimum the range of what comes out.
"""

import flatbuffers
from ai_edge_litert import schema_py_generated as schema

LARGEST = 1000.0  # no activation of a trained model comes near it, and no mask is below it
_ALWAYS_FLOAT = {"SOFTMAX", "MEAN", "SUM", "SQUARED_DIFFERENCE", "RSQRT", "SQRT", "DIV"}
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
            if kinds[index] in _ALWAYS_FLOAT or any(_is_large(tensor) for tensor in _tensors(graph, operator))
        ]
        chosen += _of_variances(graph, kinds)
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


def _of_variances(graph, kinds):
    """The indices of the operations between a variance and its square root."""
    makers = {tensor: index for index, operator in enumerate(graph.operators) for tensor in operator.outputs}
    found = []
    for kind, operator in zip(kinds, graph.operators, strict=True):
        if kind not in ("RSQRT", "SQRT"):
            continue
        maker = makers.get(operator.inputs[0])
        while maker is not None and kinds[maker] in _OF_A_VARIANCE:
            found.append(maker)
            maker = makers.get(graph.operators[maker].inputs[0])
    return found


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
