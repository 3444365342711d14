"""CoAtNet's attention: the content of positions plus a learned weight for every offset."""

import keras
import tensorflow as tf

from convnlp.kernels import look_up_offsets
from convnlp.layers.attention_mixer import AttentionMixer
from convnlp.layers.checks import require_count


@keras.saving.register_keras_serializable(package="convnlp")
class RelativeAttention(AttentionMixer):
    """Multi-head attention whose logits add a static weight per offset, as in a convolution, to the content.

        A[h, i, j] = softmax_j(q_i . k_j + w[h, j - i])       w: [H,2L-1], or [H,L] if causal
        Y = concat_h(A V) W_O

    The usual factor 1 / sqrt(D / H) is part of the initial W_Q.

    Source: Dai et al., 2021, "CoAtNet: Marrying Convolution and Attention for All Data Sizes", equation 3
    (y_pre), https://arxiv.org/abs/2106.04803.
    Departs from it: one dimension; projections of queries, keys and values, which the equation omits.

    Masking: pads are masked as keys. Causality: yes. Packing: keys of other texts are masked.
    Cost: 4 D^2 + (2 L - 1) H parameters (4 D^2 + L H if causal), 4 T D^2 + 2 T^2 D multiply-adds, a state of
    2 T D elements.

    Args:
        hidden_dim: int. Width D.
        num_heads: int. Number H of heads; divides D.
        max_sequence_length: int. The longest row L, >= 1. Defaults to `512`.
        dropout: float in [0, 1). Share of the attention weights dropped in training. Defaults to `0.0`.
        causal: bool. Whether an output sees only its own and earlier positions. Defaults to `False`.
        output_init_scale: float. Factor on the standard deviation of the initial W_O. Defaults to `1.0`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, `num_heads` does not divide `hidden_dim`, `dropout` is
            not in [0, 1), or a row is longer than `max_sequence_length`.

    Example:
    >>> mixer = RelativeAttention(hidden_dim=8, num_heads=2, max_sequence_length=16)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> mixer.cost(5)["parameters"]
    318
    """

    name = "relative_attention"
    needs_max_length = True

    def __init__(
        self,
        hidden_dim,
        num_heads,
        max_sequence_length=512,
        dropout=0.0,
        causal=False,
        output_init_scale=1.0,
        **kwargs,
    ):
        super().__init__(hidden_dim, num_heads, dropout, causal, output_init_scale, **kwargs)
        require_count("max_sequence_length", max_sequence_length)
        self.max_sequence_length = max_sequence_length
        # Offsets run from 1 - L to L - 1, or to 0 if causal.
        self._num_offsets = max_sequence_length if causal else 2 * max_sequence_length - 1

    def build(self, input_shape):
        super().build(input_shape)
        self.offset_weights = self.add_weight(
            name="offset_weights",
            shape=(self.num_heads, self._num_offsets),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
            autocast=False,  # Attention logits are float32.
        )

    def position_bias(self, query_positions, key_positions):
        weights = tf.convert_to_tensor(self.offset_weights)
        return look_up_offsets(weights, self._slot, query_positions, key_positions)

    def _slot(self, offset):
        # A causal mask hides the offsets above 0.
        return tf.clip_by_value(offset + self.max_sequence_length - 1, 0, self._num_offsets - 1)

    def cost(self, length):
        cost = super().cost(length)
        return {**cost, "parameters": cost["parameters"] + self.num_heads * self._num_offsets}

    def get_config(self):
        return {**super().get_config(), "max_sequence_length": self.max_sequence_length}
