"""From a servable to the bytes of a TFLite model."""

import tempfile

import tensorflow as tf
from tensorflow.lite.python.convert import mlir_quantize

from convnlp import kernels
from export.lite import float_operations

MODES = ("dynamic", "fp32", "fp16", "int8")
INPUTS = ("ids", "text")
TEXT_OPERATIONS = {"TFText>FastSentencepieceTokenize", "RaggedTensorToTensor"}
_SIGNATURE = "serving_default"


class UnsupportedError(ValueError):
    """TFLite has no operations for a model; the text is the converter's first line."""


def convert(servable, mode, inputs, calibration=None):
    """The flatbuffer of a `signatures.edge` servable.

    Mode "int8" quantizes weights and activations; the ranges of these come from `calibration`. Norms and
    softmax, and whatever meets the large values that hide positions, compute in float32 inside of it
    (`export.lite.float_operations`); so do the logits that come out.

    Args:
        servable: `Servable` with the one signature of `signatures.edge`.
        mode: str, one of `MODES`.
        inputs: str, one of `INPUTS`.
        calibration: list of int32 [1,T], token ids, all of one T; for mode "int8".

    Returns:
        bytes.

    Raises:
        UnsupportedError: if TFLite cannot hold the model.
        ValueError: if the arguments do not go together.
    """
    if (mode == "int8") != bool(calibration):
        raise ValueError(f"`calibration` is needed for mode int8, and for no other. Received: mode {mode}")
    if mode == "int8" and inputs == "text":
        raise ValueError("mode int8 is for inputs=ids: its calibration runs without tensorflow_text")
    with tempfile.TemporaryDirectory() as directory:
        with kernels.implementation("edge"):
            tf.saved_model.save(servable.module, directory, signatures=servable.signatures)
        converter = tf.lite.TFLiteConverter.from_saved_model(directory, signature_keys=[_SIGNATURE])
        converter.allow_custom_ops = inputs == "text"
        if mode != "fp32":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if mode == "fp16":
            converter.target_spec.supported_types = [tf.float16]
        if mode == "int8":
            (name,) = (spec.name for spec in servable.signatures[_SIGNATURE].input_signature)
            converter.representative_dataset = lambda: ((_SIGNATURE, {name: ids}) for ids in calibration)
            converter._experimental_calibrate_only = True  # as tf.lite.experimental.QuantizationDebugger does
        try:
            content = converter.convert()
            if mode == "int8":
                content, outputs = float_operations.prepared(content)
                content = mlir_quantize(content, denylisted_nodes=outputs)
        except Exception as error:  # of several classes, without a common one of their own
            reason = str(error).strip().splitlines()[0]
            raise UnsupportedError(reason) from error
    return content


def custom_operations(content):
    """The names of the operations in a flatbuffer that are not built into TFLite; Flex ones count too."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.Model.GetRootAs(content, 0)
    codes = [model.OperatorCodes(i).CustomCode() for i in range(model.OperatorCodesLength())]
    return {code.decode() for code in codes if code}
