"""External attention: positions meet in two learned memories instead of each other."""

import keras
import tensorflow as tf

from convnlp.kernels import masked_softmax, zero_pads
from convnlp.layers.projection import projection
from convnlp.layers.token_mixer import TokenMixer, require_count


@keras.saving.register_keras_serializable(package="convnlp")
class ExternalAttention(TokenMixer):
    """Attention to S learned slots, normalised over the positions and then over the slots.

        A = softmax_t(X M_k^T)                               M_k: [S,D], the softmax of each slot over tokens
        Y[t] = sum_s A[t, s] / sum_r A[t, r] M_v[s]                                        M_v: [S,D]

    The first normalisation is all that a position learns of the others.

    Source: Guo et al., 2021, "Beyond Self-attention: External Attention using Two Linear Layers for Visual
    Tasks", section 3, https://arxiv.org/abs/2105.02358.
    Departs from it: none of the authors' convolutions around it; M_v starts with independent values where
    their code copies M_k; the last division is by at least 1e-6, where their code adds 1e-9. M_v starts
    larger by sqrt(S), since at first each slot weighs about 1 / S.

    Masking: pads are hidden in the softmax over tokens. Causality: no, that softmax sees all positions.
    Packing: no. Order: of no matter, so that a model gives it positions.
    Cost: 2 S D parameters, 2 T S D multiply-adds.

    Args:
        hidden_dim: int. Width D.
        memory_size: int. Number S of slots, >= 1. Defaults to `64`.
        causal: bool. Must be False.
        output_init_scale: float. Factor on the standard deviation of the first M_v. Defaults to `1.0`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, or `causal`.

    Example:
    >>> mixer = ExternalAttention(hidden_dim=8, memory_size=16)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> mixer.cost(5)
    {'parameters': 256, 'multiply_adds': 1280, 'state_elements': 0}
    """

    supports_causal = False
    supports_step = False
    supports_packing = False
    knows_order = False
    gated = False

    def __init__(self, hidden_dim, memory_size=64, causal=False, output_init_scale=1.0, **kwargs):
        super().__init__(hidden_dim, causal, **kwargs)
        require_count("memory_size", memory_size)
        self.memory_size = memory_size
        self.output_init_scale = output_init_scale
        value_scale = output_init_scale * memory_size**0.5
        self.memory_keys = projection(memory_size, dtype=self.dtype_policy, name="memory_keys")
        self.memory_values = projection(
            hidden_dim, value_scale, dtype=self.dtype_policy, name="memory_values"
        )

    def build(self, input_shape):
        super().build(input_shape)
        self.memory_keys.build(input_shape)
        self.memory_values.build((*input_shape[:-1], self.memory_size))

    def mix(self, x, masks, training):
        logits = tf.cast(self.memory_keys(zero_pads(x, masks.padding_mask)), tf.float32)  # [B,T,S]
        visible = masks.visible_keys(x, causal=False)  # [B,1,T]
        weights = masked_softmax(tf.transpose(logits, [0, 2, 1]), visible)  # [B,S,T], 0 at pads
        weights = tf.transpose(weights, [0, 2, 1])  # [B,T,S]
        total = tf.reduce_sum(weights, axis=2, keepdims=True)  # [B,T,1], 0 at pads too
        weights /= tf.maximum(total, 1e-6)  # not less: TFLite may store it as float16
        return self.memory_values(tf.cast(weights, x.dtype))  # [B,T,D]

    def receptive_field(self, length):
        return length

    def cost(self, length):
        memories = 2 * self.memory_size * self.hidden_dim
        return {"parameters": memories, "multiply_adds": length * memories, "state_elements": 0}

    def get_config(self):
        return {
            **super().get_config(),
            "memory_size": self.memory_size,
            "output_init_scale": self.output_init_scale,
        }
