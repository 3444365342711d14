"""Full int8: int8 weights, and int8 activations around matrices, with ranges from texts of the user."""

import tensorflow as tf
from tensorflow.lite.python.convert import mlir_quantize

from convnlp.export.lite import float_operations
from convnlp.export.lite.forms.form import Form


class FullInt8(Form):
    """For hardware that wants integers.

    Some operations stay in float32, such as norms, softmax and those that give the logits; see
    `convnlp.export.lite.float_operations`.
    """

    name = "int8"
    summary = "int8 weights and activations, with ranges from --calibration_source"
    inputs = ("ids",)  # calibration runs without tensorflow_text
    calibrated = True
    bound = 0.5  # a fine-tuned model that was calibrated on other texts was off by 0.27

    def flatbuffer(self, converter, samples):
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = samples
        converter._experimental_calibrate_only = True  # as tf.lite.experimental.QuantizationDebugger does
        content, outputs = float_operations.prepared(converter.convert())
        return mlir_quantize(content, denylisted_nodes=outputs)
