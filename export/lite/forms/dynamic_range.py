"""Dynamic range: int8 weights and float32 activations, which are int8 inside products with matrices."""

import tensorflow as tf

from convnlp.export.lite.float_filters import with_float_filters
from convnlp.export.lite.forms.form import Form


class DynamicRange(Form):
    """The smallest file, much faster than float32 on a CPU, without calibration."""

    name = "dynamic"
    summary = "int8 weights, float activations"

    def flatbuffer(self, converter, samples):
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        return with_float_filters(converter.convert())
