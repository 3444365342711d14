"""Latent attention: positions exchange information through a few latents of their text."""

import keras
import tensorflow as tf

from convnlp.kernels import (
    channels_by_head,
    masked_softmax,
    merge_heads,
    mix_by_head,
    scores_by_head,
    segment_numbers,
    split_heads,
    zero_pads,
)
from convnlp.layers.checks import require_count, require_heads, require_rate
from convnlp.layers.dropout import Dropout
from convnlp.layers.projection import layer_norm, projection
from convnlp.layers.token_mixer import TokenMixer


@keras.saving.register_keras_serializable(package="convnlp")
class LatentAttention(TokenMixer):
    """Two attentions: M learned queries attend to the text, then the text attends to what they found.

        Z = LN(concat_h(softmax(Q_0 K^T) V))         Q_0: [M,D], learned;  K, V = X W_K, X W_V
        Y = concat_h(softmax(Q K_Z^T) V_Z) W_O       Q = X W_Q;  K_Z, V_Z = Z W_KZ, Z W_VZ

    All are split into H heads of D / H channels. The usual factor 1 / sqrt(D / H) is part of the initial Q_0
    and W_Q instead of the equation. Each text has its own latents Z. To a mixer, a pair of texts in one row
    is one text: its latents see both, and both see them. The norm is needed because latents start as means of
    many tokens, which are small and so similar that queries would hardly distinguish them.

    Source: Lee et al., 2019, "Set Transformer: A Framework for Attention-based Permutation-Invariant Neural
    Networks", https://arxiv.org/abs/1810.00825: the induced set attention block.
    Departs from it: there, a residual connection, a feed-forward layer and two norms follow each of the two
    attentions; here, one norm follows the first, and the layer around the mixer provides them for the second.
    No output projection between the two.

    Masking: pads are masked as keys. Causality: no, a latent sees the whole text. Packing: with G texts in
    the fullest row of a batch, there are G M latents per row, and each text sees its own. G is known only
    when the graph runs, so XLA (TPUs included) cannot compile packed rows. Order: does not matter to it, so a
    model adds positions.
    Cost: 6 D^2 + M D + 2 D parameters, 4 T D^2 + 2 M D^2 + 4 T M D multiply-adds. For packed rows, the last
    two are multiplied by G, except for the scores of the latents (a quarter of the last), which all texts
    share.

    Args:
        hidden_dim: int. Width D.
        num_heads: int. Number H of heads; divides D.
        num_latents: int. Number M of latents of a text, >= 1. Defaults to `16`.
        dropout: float in [0, 1). Share of the weights of both attentions dropped in training. Defaults to
            `0.0`.
        causal: bool. Must be False.
        output_init_scale: float. Factor on the standard deviation of the initial W_O. Defaults to `1.0`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, `num_heads` does not divide `hidden_dim`, `dropout` is
            not in [0, 1), or `causal` is True.

    Example:
    >>> mixer = LatentAttention(hidden_dim=8, num_heads=2, num_latents=4)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> mixer.cost(5)
    {'parameters': 432, 'multiply_adds': 2432, 'state_elements': 0}
    """

    name = "latent_attention"
    supports_causal = False
    supports_step = False
    knows_order = False
    gated = False

    def __init__(
        self,
        hidden_dim,
        num_heads,
        num_latents=16,
        dropout=0.0,
        causal=False,
        output_init_scale=1.0,
        **kwargs,
    ):
        super().__init__(hidden_dim, causal, **kwargs)
        require_heads(hidden_dim, num_heads)
        require_count("num_latents", num_latents)
        require_rate("dropout", dropout)
        self.num_heads = num_heads
        self.num_latents = num_latents
        self.dropout = dropout
        self.output_init_scale = output_init_scale
        dtype, self._query_scale = self.dtype_policy, (hidden_dim // num_heads) ** -0.5
        self.query = projection(hidden_dim, self._query_scale, dtype=dtype, name="query")
        self.key = projection(hidden_dim, dtype=dtype, name="key")
        self.value = projection(hidden_dim, dtype=dtype, name="value")
        self.norm = layer_norm(dtype=dtype, name="norm")
        self.latent_key = projection(hidden_dim, dtype=dtype, name="latent_key")
        self.latent_value = projection(hidden_dim, dtype=dtype, name="latent_value")
        self.output_projection = projection(hidden_dim, output_init_scale, dtype=dtype, name="output")
        self._dropout = Dropout(dropout, dtype=dtype, name="dropout")

    def build(self, input_shape):
        super().build(input_shape)
        for layer in (
            self.query,
            self.key,
            self.value,
            self.norm,
            self.latent_key,
            self.latent_value,
            self.output_projection,
        ):
            layer.build(input_shape)
        self.latent_queries = self.add_weight(
            name="latent_queries",
            shape=(self.num_latents, *channels_by_head(self.hidden_dim, self.num_heads)),
            initializer=keras.initializers.RandomNormal(stddev=self._query_scale),
        )

    def _attend(self, scores, visible, values, training):
        """Attends by scores [B,H,Q,K] to values [B,K,H,D/H] -> [B,Q,H,D/H].

        `visible` is a bool mask that broadcasts to the scores, or None if all keys are visible.
        """
        weights = masked_softmax(scores, visible)
        return mix_by_head(self._dropout(weights, training=training), values)

    @property
    def exit_projections(self):
        return (self.output_projection,)

    def mix(self, x, masks, training):
        x = zero_pads(x, masks.padding_mask)
        queries, keys, values = (
            split_heads(layer(x), self.num_heads) for layer in (self.query, self.key, self.value)
        )  # [B,T,H,D/H] each
        latent_queries = tf.cast(self.latent_queries, x.dtype)
        scores = tf.einsum("mhd,bkhd->bhmk", latent_queries, keys)  # [B,H,M,T]
        found_in, seen_by = masks.visible_keys(x, causal=False), None  # [B or 1,1,T] or None
        if masks.segment_ids is not None:
            text = segment_numbers(masks.segment_ids)  # [B,T]
            num_texts = tf.maximum(tf.reduce_max(text), 0) + 1  # G; of no rows, the maximum is -2^31
            latent_text = tf.repeat(tf.range(num_texts), self.num_latents)  # [G*M]
            own = tf.expand_dims(latent_text, 1) == tf.expand_dims(text, 1)  # [B,G*M,T]
            seen_by = tf.expand_dims(tf.transpose(own, [0, 2, 1]), 1)  # [B,1,T,G*M]
            found_in = own & tf.expand_dims(masks.padding_mask, 1)
            scores = tf.tile(scores, [1, 1, num_texts, 1])  # [B,H,G*M,T]
        found_in = None if found_in is None else tf.expand_dims(found_in, 1)
        latents = self.norm(merge_heads(self._attend(scores, found_in, values, training)))  # [B,G*M,D]
        latent_keys, latent_values = (
            split_heads(layer(latents), self.num_heads) for layer in (self.latent_key, self.latent_value)
        )
        scores = scores_by_head(queries, latent_keys)  # [B,H,T,G*M]
        return self.output_projection(merge_heads(self._attend(scores, seen_by, latent_values, training)))

    def cost(self, length):
        dim, latents = self.hidden_dim, self.num_latents
        return {
            "parameters": 6 * dim**2 + latents * dim + 2 * dim,
            "multiply_adds": (4 * length + 2 * latents) * dim**2 + 4 * length * latents * dim,
            "state_elements": 0,
        }

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "num_latents": self.num_latents,
            "dropout": self.dropout,
            "output_init_scale": self.output_init_scale,
        }
