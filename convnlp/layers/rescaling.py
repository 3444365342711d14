"""Numbers in the units of the data, from values around 0."""

import struct

import keras
import tensorflow as tf

from convnlp import kernels


@keras.saving.register_keras_serializable(package="convnlp")
class Rescaling(keras.layers.Layer):
    """Gives mean + scale x.

    In a TFLite file, both numbers are filled into tensors as integers of the same bits. As constants, the
    float16 form would round them to eleven bits and cut them at 65,504, which ruins prices or years.

    Args:
        mean: float.
        scale: float.
        **kwargs: `name` and `dtype` of the layer.
    """

    def __init__(self, mean, scale, **kwargs):
        super().__init__(**kwargs)
        self.mean, self.scale = float(mean), float(scale)

    def call(self, x):
        if kernels.current_implementation() != "edge":
            return self.mean + self.scale * x
        return _filled(self.mean, x) + _filled(self.scale, x) * x

    def get_config(self):
        return {**super().get_config(), "mean": self.mean, "scale": self.scale}


def _filled(value, x):
    """Returns a float32 tensor of one value with the shape of x."""
    (bits,) = struct.unpack("=i", struct.pack("=f", value))
    return tf.bitcast(tf.fill(tf.shape(x), bits), tf.float32)
