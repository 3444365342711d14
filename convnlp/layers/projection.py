"""The bias-free linear map that every block is made of, and the norm in front of it."""

import keras
import tensorflow as tf

from convnlp import kernels


def projection(units, scale=1.0, **kwargs):
    """A bias-free dense layer that multiplies the standard deviation of its input by `scale` at the start.

    Bias-free because a bias moves the bfloat16 matrix product to a slower kernel on CPUs (and T5 has none).

    Args:
        units: int. Width of the output.
        scale: float. Factor on the standard deviation of the initial kernel.
        **kwargs: `name` and `dtype` of the layer.

    Returns:
        A `keras.layers.Dense`: [..., D] -> [..., units].
    """
    initializer = keras.initializers.VarianceScaling(scale**2, mode="fan_in", distribution="truncated_normal")
    return Projection(units, kernel_initializer=initializer, **kwargs)


class Projection(keras.layers.Dense):
    """Keras's layer with its weight and without a bias, computed by our kernel.

    Attributes:
        folded_offset: float array [units] that is added; None but for what is exported, see
            `convnlp.models.folded_constants`.
    """

    folded_offset = None

    def __init__(self, units, use_bias=False, **kwargs):
        if use_bias:
            raise ValueError("`use_bias` must be False: the kernel adds none. Received: use_bias=True")
        super().__init__(units, use_bias=False, **kwargs)

    def call(self, x, training=None):
        return kernels.project(tf.cast(x, self.compute_dtype), self.kernel, self.folded_offset)


def layer_norm(**kwargs):
    """Layer normalisation over the last axis, computed in float32 whatever the policy."""
    return _LayerNorm(epsilon=1e-6, **kwargs)


class _LayerNorm(keras.layers.LayerNormalization):
    """Keras's layer with its weights, computed by our kernel.

    Attributes:
        is_folded: bool. Whether scale and offset are part of the weights behind it, and `is_centred`, whether
            x has mean 0: both False but for what is exported, see `convnlp.models.folded_constants`.
    """

    is_folded = False
    is_centred = False

    def call(self, x, residual=False):
        """Normalises x [..., D]; with `residual` returns x too, to be read in its place."""
        scale, offset = (None, None) if self.is_folded else (self.gamma, self.beta)
        outputs = kernels.layer_norm(x, scale, offset, self.epsilon, self.is_centred)
        return outputs if residual else outputs[0]
