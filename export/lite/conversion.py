"""From a servable to the bytes of a TFLite model."""

import tempfile

import tensorflow as tf

from convnlp import kernels
from convnlp.export.lite.forms import FORMS, form_named

TEXT_OPERATIONS = {"TFText>FastSentencepieceTokenize", "RaggedTensorToTensor"}
_SIGNATURE = "serving_default"


class UnsupportedError(ValueError):
    """TFLite has no operations for a model; the text is the converter's first line."""


def convert(servable, mode, inputs, calibration=None):
    """The flatbuffer of a `signatures.edge` servable.

    Args:
        servable: `Servable` with the one signature of `signatures.edge`.
        mode: str, one of `convnlp.export.lite.forms.FORMS`.
        inputs: str, one of `convnlp.export.lite.forms.INPUTS`.
        calibration: list of int32 [1,T], token ids, all of one T; for a mode that is `calibrated`.

    Returns:
        bytes.

    Raises:
        UnsupportedError: if TFLite cannot hold the model.
        ValueError: if the arguments do not go together.
    """
    form = form_named(mode)
    if form.calibrated != bool(calibration):
        known = ", ".join(name for name, each in FORMS.items() if each.calibrated)
        raise ValueError(f"`calibration` is needed for mode {known}, and for no other. Received: mode {mode}")
    form.require_inputs(inputs)
    with tempfile.TemporaryDirectory() as directory:
        with kernels.implementation("edge"):
            tf.saved_model.save(servable.module, directory, signatures=servable.signatures)
        converter = tf.lite.TFLiteConverter.from_saved_model(directory, signature_keys=[_SIGNATURE])
        converter.allow_custom_ops = inputs == "text"
        samples = None
        if form.calibrated:
            (name,) = (spec.name for spec in servable.signatures[_SIGNATURE].input_signature)

            def samples():
                return ((_SIGNATURE, {name: ids}) for ids in calibration)

        try:
            return form.flatbuffer(converter, samples)
        except Exception as error:  # of several classes, without a common one of their own
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UnsupportedError(reason) from error


def custom_operations(content):
    """The names of the operations in a flatbuffer that are not built into TFLite; Flex ones count too."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.Model.GetRootAs(content, 0)
    codes = [model.OperatorCodes(i).CustomCode() for i in range(model.OperatorCodesLength())]
    return {code.decode() for code in codes if code}
