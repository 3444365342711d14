"""CoAtNet's convolution: a wide depthwise convolution, reweighted by the content of the whole text."""

import math

import keras
import tensorflow as tf

from convnlp import kernels
from convnlp.kernels import zero_pads
from convnlp.layers.checks import require_count, require_positive
from convnlp.layers.projection import projection
from convnlp.layers.token_mixer import TokenMixer


@keras.saving.register_keras_serializable(package="convnlp")
class MBConv(TokenMixer):
    """Inverted bottleneck with squeeze-and-excitation, in one dimension.

        Z = gelu(DepthConv(gelu(X W_1)))                      W_1: [D,E], a filter of K taps for each channel
        s = sigmoid(gelu(mean_t(Z) W_a) W_b)                  W_a: [E,S], W_b: [S,E]; mean over the tokens
        Y = (s * Z) W_2                                       W_2: [E,D]

    The taps are as in `DilatedConv` at rate 1; an even kernel reaches further right, as with the source's
    "same" padding. The block widens and narrows the channels like a feed-forward network, so the layer around
    it has no feed-forward sublayer.

    Source: Dai et al., 2021, "CoAtNet: Marrying Convolution and Attention for All Data Sizes", section 2 and
    appendix A.1, https://arxiv.org/abs/2106.04803; the order is that of MobileNetV2 (Sandler et al., 2018,
    table 1, https://arxiv.org/abs/1801.04381), with an activation after the expansion and after the depthwise
    convolution; squeeze-and-excitation of Hu et al., 2018, https://arxiv.org/abs/1709.01507, comes between
    the latter and the projection, as in EfficientNet (Tan and Le, 2019).
    Departs from it: one dimension; the skeleton's layer norm before W_1 is the only norm, where the source
    also has a batch norm before each activation, whose statistics would include pads; gelu between W_a and
    W_b, as after W_1, where Hu et al. have relu; no bias.

    Masking: inputs at pads are zero and do not count in the mean. Causality: no, the mean is over the whole
    text. Packing: taps that reach into another text meet zeros, and each text has its own mean.
    Cost: E (2 D + 2 S + K) parameters with E = expansion D and S = squeeze_ratio D, T E (2 D + K + 1) + 2 E S
    multiply-adds.

    Args:
        hidden_dim: int. Width D.
        kernel_size: int. Number K of taps, >= 1, odd or even. Defaults to `3`.
        expansion: int. E / D, >= 1. Defaults to `4`.
        squeeze_ratio: float in (0, 1]. S / D; S is rounded up. Defaults to `0.25`.
        causal: bool. Must be False.
        output_init_scale: float. Factor on the standard deviation of the initial W_2. Defaults to `1.0`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, `squeeze_ratio` is out of range, or `causal` is True.

    Example:
    >>> mixer = MBConv(hidden_dim=8, kernel_size=3, expansion=2)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> mixer.cost(5)["parameters"]
    368
    """

    name = "mb_conv"
    supports_causal = False
    supports_step = False
    gated = False
    contains_feed_forward = True

    def __init__(
        self,
        hidden_dim,
        kernel_size=3,
        expansion=4,
        squeeze_ratio=0.25,
        causal=False,
        output_init_scale=1.0,
        **kwargs,
    ):
        super().__init__(hidden_dim, causal, **kwargs)
        require_count("kernel_size", kernel_size)
        require_count("expansion", expansion)
        require_positive("squeeze_ratio", squeeze_ratio, most=1)
        self.kernel_size = kernel_size
        self.expansion = expansion
        self.squeeze_ratio = squeeze_ratio
        self.output_init_scale = output_init_scale
        self._inner_dim = expansion * hidden_dim
        self._squeezed_dim = math.ceil(squeeze_ratio * hidden_dim)
        dtype = self.dtype_policy
        self.inner = projection(self._inner_dim, dtype=dtype, name="inner")
        self.squeeze = projection(self._squeezed_dim, dtype=dtype, name="squeeze")
        self.excite = projection(self._inner_dim, dtype=dtype, name="excite")
        self.outer = projection(hidden_dim, output_init_scale, dtype=dtype, name="outer")

    def build(self, input_shape):
        super().build(input_shape)
        inner_shape = (*input_shape[:-1], self._inner_dim)
        self.inner.build(input_shape)
        self.squeeze.build(inner_shape)
        self.excite.build((*input_shape[:-1], self._squeezed_dim))
        self.outer.build(inner_shape)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self._inner_dim, self.kernel_size),
            # Each channel sums only its own K inputs.
            initializer=keras.initializers.RandomNormal(stddev=self.kernel_size**-0.5),
        )

    @property
    def exit_projections(self):
        return (self.outer,)

    def mix(self, x, masks, training):
        z = _gelu(self.inner(zero_pads(x, masks.padding_mask)))  # [B,T,E], 0 at pads
        taps = tf.cast(self.kernel, z.dtype)
        z = _gelu(kernels.depthwise_conv(z, taps, causal=False, segment_ids=masks.segment_ids))
        squeezed = _gelu(self.squeeze(_text_means(z, masks)))  # [B,1 or T,S]
        return self.outer(z * tf.sigmoid(self.excite(squeezed)))

    def cost(self, length):
        dim, inner, squeezed = self.hidden_dim, self._inner_dim, self._squeezed_dim
        return {
            "parameters": 2 * dim * inner + 2 * inner * squeezed + inner * self.kernel_size,
            "multiply_adds": length * inner * (2 * dim + self.kernel_size + 1) + 2 * inner * squeezed,
            "state_elements": 0,
        }

    def get_config(self):
        return {
            **super().get_config(),
            "kernel_size": self.kernel_size,
            "expansion": self.expansion,
            "squeeze_ratio": self.squeeze_ratio,
            "output_init_scale": self.output_init_scale,
        }


def _gelu(x):
    return tf.nn.gelu(x, approximate=True)


def _text_means(z, masks):
    """Returns the mean of z [B,T,E] over the tokens of a text: [B,1,E], or [B,T,E] if rows are packed."""
    counted = masks.visible_keys(z, causal=False)  # [B,1 or T,T]
    if counted is None:
        counted = tf.expand_dims(tf.ones(tf.shape(z)[:2], tf.bool), 1)  # [B,1,T]
    counted = tf.cast(counted, tf.float32)
    total = tf.matmul(counted, tf.cast(z, tf.float32))  # [B,1 or T,E]
    means = total / tf.maximum(tf.reduce_sum(counted, axis=2, keepdims=True), 1.0)
    return tf.cast(means, z.dtype)
