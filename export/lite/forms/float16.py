"""Float16: weights of half the size, which become float32 when they are read."""

import tensorflow as tf

from convnlp.export.lite.forms.form import Form


class Float16(Form):
    """Half the size, almost no error."""

    name = "fp16"
    summary = "float16 weights, float activations"
    bound = 0.02

    def flatbuffer(self, converter, samples):
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16]
        return converter.convert()
