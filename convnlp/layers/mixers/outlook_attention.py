"""Outlook attention: each position determines how the positions around it attend to each other."""

import functools
import operator

import keras
import tensorflow as tf

from convnlp import kernels
from convnlp.kernels import zero_pads
from convnlp.layers.checks import require_count, require_heads, require_rate
from convnlp.layers.dropout import Dropout
from convnlp.layers.projection import projection
from convnlp.layers.token_mixer import TokenMixer


@keras.saving.register_keras_serializable(package="convnlp")
class OutlookAttention(TokenMixer):
    """Attention within windows of K positions, whose K x K weights come from the position in the middle.

        A_i   = softmax_n(reshape(x_i W_A))                 W_A: [D,H*K*K], A_i: [H,K,K]
        z_m   = sum_i sum_n A_i[h, m - i + p, n] v_{i+n-p}  over the windows i that m is in, v = X W_V
        y_m   = concat_h(z_m) W_O

    p = (K - 1) // 2: an even window reaches one position further right than left. There are no queries and
    keys: one projection gives the weights of all pairs in a window. A position adds up its results from all
    windows that contain it, so an output sees K - 1 positions on either side. These sums over windows are
    computed as sums of weights: 2 K - 1 taps per position, applied to its neighbours. The usual factor 1 /
    sqrt(D / H) is part of the initial W_A.

    Source: Yuan et al., 2021, "VOLO: Vision Outlooker for Visual Recognition", section 3.1 (?),
    https://arxiv.org/abs/2106.13112.
    Departs from it: one dimension; a stride of 1; no bias.

    Masking: values at pads are zero but count in the softmax, like values outside the text, as in the source;
    a window around a pad contributes nothing. Causality: no, a position is in windows around later ones.
    Packing: other texts are treated like pads.
    Cost: 2 D^2 + D H K^2 parameters, T D (2 D + H K^2 + 2 K - 1) multiply-adds.

    Args:
        hidden_dim: int. Width D.
        num_heads: int. Number H of heads; divides D.
        window_size: int. Number K of positions in a window, >= 1, odd or even. Defaults to `7`.
        dropout: float in [0, 1). Share of the attention weights dropped in training. Defaults to `0.0`.
        causal: bool. Must be False.
        output_init_scale: float. Factor on the standard deviation of the initial W_O. Defaults to `1.0`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, `num_heads` does not divide `hidden_dim`, `dropout` is
            not in [0, 1), or `causal` is True.

    Example:
    >>> mixer = OutlookAttention(hidden_dim=8, num_heads=2, window_size=3)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> mixer.cost(5)
    {'parameters': 272, 'multiply_adds': 1560, 'state_elements': 0}
    """

    name = "outlook_attention"
    supports_causal = False
    supports_step = False
    gated = False

    def __init__(
        self,
        hidden_dim,
        num_heads,
        window_size=7,
        dropout=0.0,
        causal=False,
        output_init_scale=1.0,
        **kwargs,
    ):
        super().__init__(hidden_dim, causal, **kwargs)
        require_heads(hidden_dim, num_heads)
        require_count("window_size", window_size)
        require_rate("dropout", dropout)
        self.num_heads = num_heads
        self.window_size = window_size
        self.dropout = dropout
        self.output_init_scale = output_init_scale
        dtype, scale = self.dtype_policy, (hidden_dim // num_heads) ** -0.5
        self.generator = projection(num_heads * window_size**2, scale, dtype=dtype, name="generator")
        self.value = projection(hidden_dim, dtype=dtype, name="value")
        self.output_projection = projection(hidden_dim, output_init_scale, dtype=dtype, name="output")
        self._dropout = Dropout(dropout, dtype=dtype, name="dropout")

    def build(self, input_shape):
        super().build(input_shape)
        for layer in (self.generator, self.value, self.output_projection):
            layer.build(input_shape)

    @property
    def exit_projections(self):
        return (self.output_projection,)

    def mix(self, x, masks, training):
        x = zero_pads(x, masks.padding_mask)
        taps = self._taps(self._weights(x, masks.padding_mask, training), masks.segment_ids)
        return self.output_projection(
            kernels.dynamic_conv(self.value(x), taps, segment_ids=masks.segment_ids)
        )

    def _weights(self, x, padding_mask, training):
        """Returns the weights A of the window around each position, float32 [B,T,H*K,K]; 0 around pads."""
        shape, size = tf.shape(x), self.window_size
        logits = tf.reshape(self.generator(x), [shape[0], shape[1], self.num_heads * size, size])
        weights = tf.cast(tf.nn.softmax(tf.cast(logits, tf.float32)), x.dtype)
        weights = tf.cast(self._dropout(weights, training=training), tf.float32)
        flat = tf.reshape(weights, [shape[0], shape[1], self.num_heads * size**2])
        return tf.reshape(zero_pads(flat, padding_mask), [shape[0], shape[1], self.num_heads * size, size])

    def _taps(self, weights, segment_ids):
        """Returns the weight of each neighbour of a position, summed over all windows that contain both.

        Args:
            weights: float32 tensor [B,T,H*K,K].
            segment_ids: int32 tensor [B,T], or None.

        Returns:
            Float32 tensor [B,T,H,2K-1], for the neighbours at offsets 1 - K to K - 1.
        """
        shape, size = tf.shape(weights), self.window_size
        weights = tf.reshape(weights, [shape[0], shape[1], self.num_heads, size, size])
        # For the j-th position of a window, the middle of the window is p - j positions to the right.
        where = (size, size - 1 - kernels.left_taps(size, causal=False))
        windows = kernels.shifted(kernels.pad_for_taps(weights, *where, 1), size, 1)[::-1]
        if segment_ids is not None:
            same = kernels.taps_in_segment(segment_ids, *where, 1)  # [B,T,K]
            windows = [
                window * tf.reshape(tf.cast(kept, tf.float32), [shape[0], shape[1], 1, 1, 1])
                for window, kept in zip(windows, tf.unstack(same, axis=2)[::-1], strict=True)
            ]
        terms = [
            tf.pad(window[:, :, :, j], [[0, 0], [0, 0], [0, 0], [size - 1 - j, j]])
            for j, window in enumerate(windows)
        ]
        return functools.reduce(operator.add, terms)

    def receptive_field(self, length):
        return min(length, 2 * self.window_size - 1)

    def cost(self, length):
        dim, size = self.hidden_dim, self.window_size
        weights = 2 * dim**2 + dim * self.num_heads * size**2
        return {
            "parameters": weights,
            "multiply_adds": length * (weights + dim * (2 * size - 1)),
            "state_elements": 0,
        }

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "window_size": self.window_size,
            "dropout": self.dropout,
            "output_init_scale": self.output_init_scale,
        }
