"""Linformer: attention to a fixed number of learned mixtures of the positions."""

import keras
import tensorflow as tf

from convnlp.kernels import (
    masked_softmax,
    merge_heads,
    mix_by_head,
    scores_by_head,
    split_heads,
    zero_pads,
)
from convnlp.layers.checks import require_count, require_heads, require_rate
from convnlp.layers.dropout import Dropout
from convnlp.layers.projection import projection
from convnlp.layers.token_mixer import TokenMixer


@keras.saving.register_keras_serializable(package="convnlp")
class Linformer(TokenMixer):
    """Attention whose keys and values are R learned weighted sums over the positions.

        Y = concat_h(softmax(Q (E K)^T) F V) W_O      Q, K, V = X W_Q, X W_K, X W_V, split into H heads

    E and F are [R,L], the same for all heads; a text of T <= L positions uses E[:, :T] and F[:, :T]. The
    usual factor 1 / sqrt(D / H) is part of the initial W_Q instead of the equation.

    Source: Wang et al., 2020, "Linformer: Self-Attention with Linear Complexity", section 4, equation 7,
    https://arxiv.org/abs/2006.04768, with its headwise sharing.
    Departs from it: texts may be shorter than L.

    Masking: keys and values are zero at pads, so that their number does not matter. Causality: no, a sum is
    over all positions. Packing: no.
    Cost: 4 D^2 + 2 R L parameters, 4 T D^2 + 4 T R D multiply-adds.

    Args:
        hidden_dim: int. Width D.
        num_heads: int. Number H of heads; divides D.
        max_sequence_length: int. The longest text L, >= 1.
        num_sums: int. Number R of sums, >= 1. Defaults to `64`.
        dropout: float in [0, 1). Share of the attention weights dropped in training. Defaults to `0.0`.
        causal: bool. Must be False.
        output_init_scale: float. Factor on the standard deviation of the initial W_O. Defaults to `1.0`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, `num_heads` does not divide `hidden_dim`, `dropout` is
            not in [0, 1), a text is longer than `max_sequence_length`, or `causal` is True.

    Example:
    >>> mixer = Linformer(hidden_dim=8, num_heads=2, max_sequence_length=16, num_sums=4)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> mixer.cost(5)
    {'parameters': 384, 'multiply_adds': 1920, 'state_elements': 0}
    """

    name = "linformer"
    supports_causal = False
    supports_step = False
    supports_packing = False
    needs_max_length = True
    gated = False

    def __init__(
        self,
        hidden_dim,
        num_heads,
        max_sequence_length,
        num_sums=64,
        dropout=0.0,
        causal=False,
        output_init_scale=1.0,
        **kwargs,
    ):
        super().__init__(hidden_dim, causal, **kwargs)
        require_heads(hidden_dim, num_heads)
        require_count("max_sequence_length", max_sequence_length)
        require_count("num_sums", num_sums)
        require_rate("dropout", dropout)
        self.num_heads = num_heads
        self.max_sequence_length = max_sequence_length
        self.num_sums = num_sums
        self.dropout = dropout
        self.output_init_scale = output_init_scale
        dtype = self.dtype_policy
        self.query = projection(hidden_dim, (hidden_dim // num_heads) ** -0.5, dtype=dtype, name="query")
        self.key = projection(hidden_dim, dtype=dtype, name="key")
        self.value = projection(hidden_dim, dtype=dtype, name="value")
        self.output_projection = projection(hidden_dim, output_init_scale, dtype=dtype, name="output")
        self._dropout = Dropout(dropout, dtype=dtype, name="dropout")

    def build(self, input_shape):
        super().build(input_shape)
        for layer in (self.query, self.key, self.value, self.output_projection):
            layer.build(input_shape)
        shape = (self.num_sums, self.max_sequence_length)
        # A sum over a text of full length has the variance of one of its terms.
        initializer = keras.initializers.RandomNormal(stddev=self.max_sequence_length**-0.5)
        self.key_sums = self.add_weight(name="key_sums", shape=shape, initializer=initializer)
        self.value_sums = self.add_weight(name="value_sums", shape=shape, initializer=initializer.clone())

    @property
    def exit_projections(self):
        return (self.output_projection,)

    def mix(self, x, masks, training):
        x = zero_pads(x, masks.padding_mask)
        time = tf.shape(x)[1]
        keys, values = (
            split_heads(tf.matmul(tf.cast(sums, x.dtype)[:, :time], layer(x)), self.num_heads)
            for sums, layer in ((self.key_sums, self.key), (self.value_sums, self.value))
        )  # [B,R,H,D/H] each
        queries = split_heads(self.query(x), self.num_heads)  # [B,T,H,D/H]
        weights = self._dropout(masked_softmax(scores_by_head(queries, keys)), training=training)
        return self.output_projection(merge_heads(mix_by_head(weights, values)))

    def cost(self, length):
        dim, sums = self.hidden_dim, self.num_sums
        return {
            "parameters": 4 * dim**2 + 2 * sums * self.max_sequence_length,
            "multiply_adds": 4 * length * dim * (dim + sums),
            "state_elements": 0,
        }

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "max_sequence_length": self.max_sequence_length,
            "num_sums": self.num_sums,
            "dropout": self.dropout,
            "output_init_scale": self.output_init_scale,
        }
