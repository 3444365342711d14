"""Converts a servable to the bytes of a TFLite model."""

import tempfile

import tensorflow as tf

from convnlp import kernels
from convnlp.export.lite.forms import FORMS, form_named

TEXT_OPERATIONS = {"TFText>FastSentencepieceTokenize", "RaggedTensorToTensor"}
_SIGNATURE = "serving_default"


class UnsupportedError(ValueError):
    """Raised if TFLite has no operations for a model; the message is the first line of the converter's."""


def convert(servable, mode, inputs, calibration=None):
    """Returns the flatbuffer of a `signatures.edge` servable.

    Args:
        servable: `Servable` with the one signature of `signatures.edge`.
        mode: str. One of `convnlp.export.lite.forms.FORMS`.
        inputs: str. One of `convnlp.export.lite.forms.INPUTS`.
        calibration: list of int32 [1,T]. Token ids, all of one length T, for a mode that is `calibrated`.

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
        except Exception as error:  # the converter raises several classes, which have no narrower base
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UnsupportedError(reason) from error


def custom_operations(content):
    """Returns the names of a flatbuffer's operations that are not built into TFLite, including Flex ones."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.Model.GetRootAs(content, 0)
    codes = [model.OperatorCodes(i).CustomCode() for i in range(model.OperatorCodesLength())]
    return {code.decode() for code in codes if code}
