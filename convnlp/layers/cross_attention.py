"""Encoder-decoder attention."""

import keras
import tensorflow as tf
from keras import ops

from convnlp import kernels
from convnlp.layers.checks import require_heads, require_rate
from convnlp.layers.dropout import Dropout
from convnlp.layers.projection import projection

CROSS_ATTENTION_INITS = ("independent", "tied")
TIED_SCALE = 0.25


@keras.saving.register_keras_serializable(package="convnlp")
class CrossAttention(keras.layers.Layer):
    """Multi-head attention from the decoder's positions to the encoder's output.

        Q = X W_q,  K = E W_k,  V = E W_v                   X [B,T,D], E [B,S,D]
        Y = concat_h(softmax(Q_h K_h^T) V_h) W_o            no 1/sqrt(D/H): it is in the initial W_q

    Source: Raffel et al., 2020 (T5), https://arxiv.org/abs/1910.10683, which has no position bias here.
    Departs from it: `init="tied"` starts at W_q = 0.25 W_k. From the first step, a decoder position then
    attends to encoder positions with similar content, so that the encoder gets a gradient before the decoder
    has learned to do without it; docs/recipes.md shows how much the decoder then uses the encoder.

    Masking: encoder pads and positions of other segments get weight 0. The softmax runs in float32.
    Cost: 4 D^2 parameters, 2 D^2 (T + S) + 2 D T S multiply-adds. Incremental decoding computes the keys and
    values once.

    Args:
        hidden_dim: int. D.
        num_heads: int. H, a divisor of D.
        dropout: float in [0, 1). Rate on the attention weights.
        init: "independent" or "tied".
        output_init_scale: float. Factor on the standard deviation of the initial W_o.
        **kwargs: `name` and `dtype` of the Keras layer.

    Raises:
        ValueError: if H does not divide D, `dropout` is not in [0, 1), or `init` is unknown.
    """

    def __init__(
        self, hidden_dim, num_heads, dropout=0.0, init="independent", output_init_scale=1.0, **kwargs
    ):
        super().__init__(**kwargs)
        require_heads(hidden_dim, num_heads)
        require_rate("dropout", dropout)
        if init not in CROSS_ATTENTION_INITS:
            raise ValueError(f"`init` must be one of {CROSS_ATTENTION_INITS}. Received: {init!r}")
        self.hidden_dim, self.num_heads = hidden_dim, num_heads
        self.dropout_rate, self.init, self.output_init_scale = dropout, init, output_init_scale
        dtype = {"dtype": self.dtype_policy}
        self.query = projection(hidden_dim, (hidden_dim // num_heads) ** -0.5, name="query", **dtype)
        self.key = projection(hidden_dim, name="key", **dtype)
        self.value = projection(hidden_dim, name="value", **dtype)
        self.output_projection = projection(hidden_dim, output_init_scale, name="output", **dtype)
        self.dropout = Dropout(dropout, name="dropout", **dtype)
        if init == "tied":  # a Keras initializer gives the same values at every call
            start = self.key.kernel_initializer
            self.query.kernel_initializer = lambda shape, dtype: TIED_SCALE * start(shape, dtype)

    def build(self, input_shape):
        for layer in (self.query, self.key, self.value, self.output_projection):
            layer.build(input_shape)

    def _split_heads(self, x):
        return tf.transpose(kernels.split_heads(x, self.num_heads), [0, 2, 1, 3])  # [B,H,T,D/H]

    def keys_and_values(self, encoder_output):
        """Returns the state for decoding: [B,S,D] -> {"key": [B,H,S,D/H], "value": [B,H,S,D/H]}."""
        return {
            "key": self._split_heads(self.key(encoder_output)),
            "value": self._split_heads(self.value(encoder_output)),
        }

    def attend(self, x, memory, allowed=None, training=False):
        """Attends to given keys and values.

        Args:
            x: tensor [B,T,D].
            memory: dict, from `keys_and_values`.
            allowed: bool tensor that broadcasts to [B,T,S]; False = weight 0. Defaults to all allowed.
            training: bool. Whether dropout is active.

        Returns:
            Tensor [B,T,D].
        """
        scores = tf.matmul(self._split_heads(self.query(x)), memory["key"], transpose_b=True)  # [B,H,T,S]
        weights = kernels.masked_softmax(scores, None if allowed is None else ops.expand_dims(allowed, 1))
        weights = self.dropout(weights, training=training)
        y = tf.transpose(tf.matmul(weights, memory["value"]), [0, 2, 1, 3])  # [B,T,H,D/H]
        return self.output_projection(kernels.merge_heads(y))  # [B,T,D]

    def call(self, x, encoder_output, allowed=None, training=False):
        """Attends from x [B,T,D] to encoder_output [B,S,D] -> [B,T,D]; `allowed` is as in `attend`."""
        return self.attend(x, self.keys_and_values(encoder_output), allowed, training)

    def cost(self, length, encoder_length):
        """Like `TokenMixer.cost`, for one example of `length` decoder and `encoder_length` encoder tokens."""
        dim = self.hidden_dim
        return {
            "parameters": 4 * dim**2,
            "multiply_adds": 2 * dim**2 * (length + encoder_length) + 2 * dim * length * encoder_length,
            "state_elements": 2 * dim * encoder_length,
        }

    def get_config(self):
        return {
            **super().get_config(),
            "hidden_dim": self.hidden_dim,
            "num_heads": self.num_heads,
            "dropout": self.dropout_rate,
            "init": self.init,
            "output_init_scale": self.output_init_scale,
        }
