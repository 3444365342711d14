"""Turns the int8 filters of depthwise convolutions in a dynamic-range TFLite model back into float32.

XNNPACK multiplies float32 activations by int8 matrices, but has no depthwise convolution of float32 with
int8. TFLite's own one first rounds the activations to int8, and is many times slower. The filters are only a
few numbers, so they are stored in float32, and XNNPACK takes the convolution.
"""

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from convnlp.export.lite.float_operations import packed


def with_float_filters(content):
    """Returns the model with float32 filters in its float32 depthwise convolutions, equal to the int8 ones.

    Args:
        content: bytes of a model.

    Returns:
        bytes.
    """
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    for graph in model.subgraphs:
        for operator in graph.operators:
            code = model.operatorCodes[operator.opcodeIndex]
            if code.builtinCode != schema.BuiltinOperator.DEPTHWISE_CONV_2D:
                continue
            inputs, filters = (graph.tensors[index] for index in operator.inputs[:2])
            types = inputs.type, filters.type
            if types == (schema.TensorType.FLOAT32, schema.TensorType.INT8):
                _make_float(filters, model.buffers)
    _drop_unused(model)
    return packed(model)


def _make_float(tensor, buffers):
    """Replaces an int8 tensor by the float32 values that it represents, in a buffer of its own."""
    stored = np.asarray(buffers[tensor.buffer].data, np.uint8).view(np.int8).reshape(tensor.shape)
    shape = np.ones(len(tensor.shape), int)
    shape[tensor.quantization.quantizedDimension] = -1  # a scale for each channel, or one for all
    scale = np.reshape(tensor.quantization.scale, shape)
    zero_point = np.reshape(tensor.quantization.zeroPoint, shape)
    buffer = schema.BufferT()
    buffer.data = ((stored - zero_point) * scale).astype(np.float32).view(np.uint8).ravel()
    tensor.type, tensor.quantization, tensor.buffer = schema.TensorType.FLOAT32, None, len(buffers)
    buffers.append(buffer)


def _drop_unused(model):
    """Empties the buffers that no tensor and no metadata uses any more."""
    used = {tensor.buffer for graph in model.subgraphs for tensor in graph.tensors}
    used |= {entry.buffer for entry in model.metadata or []}
    for index, buffer in enumerate(model.buffers):
        if index not in used:
            buffer.data = None
