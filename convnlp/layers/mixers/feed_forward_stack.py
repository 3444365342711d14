"""The token half of Melas-Kyriazi's stack of feed-forward layers."""

import keras
import tensorflow as tf

from convnlp.kernels import zero_pads
from convnlp.layers.checks import require_count
from convnlp.layers.token_mixer import TokenMixer
from convnlp.layers.token_mlp import TokenMLP

_EPSILON = 1e-6


@keras.saving.register_keras_serializable(package="convnlp")
class FeedForwardStack(TokenMixer):
    """Layer normalisation over the positions, then two dense layers over them.

        z[t, c] = g[t] (x[t, c] - mean_t x[:, c]) / sqrt(var_t x[:, c] + 1e-6) + o[t]        g, o: [L]
        y[:, c] = W2 gelu(W1 z[:, c] + b1) + b2              W1: [eL,L], b1: [eL], W2: [L,eL], b2: [L]

    A text of T <= L positions uses the first T entries of every axis of size L. Mean and variance are taken
    per channel over the tokens of the text.

    Source: Melas-Kyriazi, 2021, "Do You Even Need Attention? A Stack of Feed-Forward Layers Does Surprisingly
    Well on ImageNet", https://arxiv.org/abs/2105.02723.
    Departs from it: texts may be shorter than L, and mean and variance leave out pads; the skeleton's norm
    over the channels comes first; the layer over the features, which is the skeleton's, follows the one over
    the positions instead of preceding it.

    Masking: z is zero at pads, so that their number does not matter. Causality: no, a hidden value sees all
    positions. Packing: no.
    Cost: 2 e L^2 + e L + 3 L parameters, 2 T e L D multiply-adds.

    Args:
        hidden_dim: int. Width D.
        max_sequence_length: int. The longest text L, >= 1.
        expansion: int. Factor e of the hidden size e L over the positions, >= 1. Defaults to `4`.
        causal: bool. Must be False.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, a text is longer than `max_sequence_length`, or `causal`
            is True.

    Example:
    >>> mixer = FeedForwardStack(hidden_dim=8, max_sequence_length=16)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> mixer.cost(5)
    {'parameters': 2160, 'multiply_adds': 5120, 'state_elements': 0}
    """

    name = "feed_forward_stack"
    supports_causal = False
    supports_step = False
    supports_packing = False
    needs_max_length = True
    gated = False

    def __init__(self, hidden_dim, max_sequence_length, expansion=4, causal=False, **kwargs):
        super().__init__(hidden_dim, causal, **kwargs)
        require_count("max_sequence_length", max_sequence_length)
        require_count("expansion", expansion)
        self.max_sequence_length = max_sequence_length
        self.expansion = expansion
        self.mlp = TokenMLP(
            max_sequence_length, expansion * max_sequence_length, dtype=self.dtype_policy, name="mlp"
        )

    def build(self, input_shape):
        super().build(input_shape)
        self.mlp.build()
        for name, first in (("scale", "ones"), ("offset", "zeros")):
            weight = self.add_weight(
                name=name, shape=(self.max_sequence_length,), initializer=first, autocast=False
            )  # The norm runs in float32.
            setattr(self, name, weight)

    def mix(self, x, masks, training):
        length = tf.shape(x)[1]
        z = tf.cast(zero_pads(x, masks.padding_mask), tf.float32)
        tokens = tf.ones([1, length, 1])
        if masks.padding_mask is not None:
            tokens = tf.expand_dims(tf.cast(masks.padding_mask, tf.float32), 2)  # [B,T,1]
        count = tf.maximum(tf.reduce_sum(tokens, axis=1, keepdims=True), 1.0)  # [B,1,1]
        z -= tf.reduce_sum(z, axis=1, keepdims=True) / count
        variance = tf.reduce_sum(tokens * tf.square(z), axis=1, keepdims=True) / count  # [B,1,D]
        z *= tf.math.rsqrt(variance + _EPSILON)
        z = z * tf.expand_dims(self.scale[:length], 1) + tf.expand_dims(self.offset[:length], 1)  # [B,T,D]
        return self.mlp(zero_pads(tf.cast(z, x.dtype), masks.padding_mask))

    def cost(self, length):
        cost = self.mlp.cost(length, self.hidden_dim)
        return {**cost, "parameters": cost["parameters"] + 2 * self.max_sequence_length}

    def get_config(self):
        return {
            **super().get_config(),
            "max_sequence_length": self.max_sequence_length,
            "expansion": self.expansion,
        }
