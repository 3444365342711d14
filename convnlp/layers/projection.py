"""The bias-free linear map that all blocks are built from, and the norm before it."""

import keras
import tensorflow as tf

from convnlp import kernels


def projection(units, scale=1.0, **kwargs):
    """Makes a bias-free dense layer that initially multiplies its input's standard deviation by `scale`.

    There is no bias because it moves the bfloat16 matrix product to a slower kernel on CPUs (and T5 has
    none).

    Args:
        units: int. Width of the output.
        scale: float. Factor on the standard deviation of the initial kernel. Defaults to `1.0`.
        **kwargs: `name` and `dtype` of the layer.

    Returns:
        A `keras.layers.Dense`: [..., D] -> [..., units].
    """
    initializer = keras.initializers.VarianceScaling(scale**2, mode="fan_in", distribution="truncated_normal")
    return Projection(units, kernel_initializer=initializer, **kwargs)


class Projection(keras.layers.Dense):
    """Keras's dense layer, with the same weight and no bias, computed by `kernels.project`: y = x W.

    Args:
        units: int. E, the last axis of y [...,E] for x [...,D].
        use_bias: bool. Must be False, as in the configurations that Keras saves.
        **kwargs: as for `keras.layers.Dense`.

    Raises:
        ValueError: if `use_bias` is True.

    Attributes:
        folded_offset: float array [units] that is added; None except on export, see
            `convnlp.models.folded_constants`.
    """

    folded_offset = None

    def __init__(self, units, use_bias=False, **kwargs):
        if use_bias:
            raise ValueError("`use_bias` must be False: the kernel adds no bias. Received: use_bias=True")
        super().__init__(units, use_bias=False, **kwargs)

    def call(self, x, training=None):
        return kernels.project(tf.cast(x, self.compute_dtype), self.kernel, self.folded_offset)


def layer_norm(**kwargs):
    """Makes a layer normalisation over the last axis, computed in float32 under any dtype policy."""
    return _LayerNorm(epsilon=1e-6, **kwargs)


class _LayerNorm(keras.layers.LayerNormalization):
    """Keras's layer normalisation, with the same weights, computed by `kernels.layer_norm`.

    Attributes:
        is_folded: bool. Whether the scale is part of the weights after it.
        kept_offset: float array [D] that is added if the scale is folded; None if the offset is folded too.
        is_centred: bool. Whether x already has mean 0. These are False and None except on export, see
            `convnlp.models.folded_constants`.
    """

    is_folded = False
    kept_offset = None
    is_centred = False

    def call(self, x, residual=False):
        """Normalises x [..., D]; with `residual`, also returns x, to use instead of the original."""
        scale, offset = (None, self.kept_offset) if self.is_folded else (self.gamma, self.beta)
        outputs = kernels.layer_norm(x, scale, offset, self.epsilon, self.is_centred)
        return outputs if residual else outputs[0]
