"""External attention: positions attend to two learned memories instead of to each other."""

import keras
import tensorflow as tf

from convnlp.kernels import masked_softmax, merge_heads, split_heads, zero_pads
from convnlp.layers.checks import require_count, require_heads
from convnlp.layers.projection import projection
from convnlp.layers.token_mixer import TokenMixer


@keras.saving.register_keras_serializable(package="convnlp")
class ExternalAttention(TokenMixer):
    """Attention to S learned slots, normalised over the positions and then over the slots.

        A = softmax_t(X M_k^T)                               M_k: [S,D]; for each slot, over the tokens
        Y[t] = sum_s A[t, s] / sum_r A[t, r] M_v[s]                                        M_v: [S,D]

    The first normalisation is the only way in which a position sees the others.

    With H > 1 memory heads, U = X W_U is split into H parts of D / H channels, which replace X. All parts use
    the same memories, M_k and M_v: [S,D/H]; their results are concatenated and multiplied by W_O.

    Source: Guo et al., 2021, "Beyond Self-attention: External Attention using Two Linear Layers for Visual
    Tasks", section 3, https://arxiv.org/abs/2105.02358; several heads are in its section 3.3.
    Departs from it: without the convolutions that the authors put around it; U has D channels, where their
    code for several heads has 4 D, and four times the heads; M_v is initialised independently, where their
    code copies M_k; the second normalisation divides by at least 1e-6, where their code adds 1e-9. The
    initial M_v is larger by sqrt(S), because at first each slot has a weight of about 1 / S.

    Masking: pads are masked in the softmax over tokens. Causality: no, that softmax sees all positions.
    Packing: no. Order: does not matter to it, so a model adds positions.
    Cost: 2 S D parameters, 2 T S D multiply-adds; with H > 1, 2 D^2 + 2 S D / H parameters and
    2 T (D^2 + S D) multiply-adds.

    Args:
        hidden_dim: int. Width D.
        memory_size: int. Number S of slots, >= 1. Defaults to `64`.
        memory_heads: int. Number H of heads; divides D. Defaults to `1`.
        causal: bool. Must be False.
        output_init_scale: float. Factor on the standard deviation of the initial M_v, or of W_O if H > 1.
            Defaults to `1.0`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, `memory_heads` does not divide `hidden_dim`, or `causal`
            is True.

    Example:
    >>> mixer = ExternalAttention(hidden_dim=8, memory_size=16)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> mixer.cost(5)
    {'parameters': 256, 'multiply_adds': 1280, 'state_elements': 0}
    """

    name = "external_attention"
    supports_causal = False
    supports_step = False
    supports_packing = False
    knows_order = False
    gated = False

    def __init__(
        self, hidden_dim, memory_size=64, memory_heads=1, causal=False, output_init_scale=1.0, **kwargs
    ):
        super().__init__(hidden_dim, causal, **kwargs)
        require_count("memory_size", memory_size)
        require_heads(hidden_dim, memory_heads, "memory_heads")
        self.memory_size = memory_size
        self.memory_heads = memory_heads
        self.output_init_scale = output_init_scale
        dtype, is_single = self.dtype_policy, memory_heads == 1
        value_scale = memory_size**0.5 * (output_init_scale if is_single else 1.0)
        self.memory_keys = projection(memory_size, dtype=dtype, name="memory_keys")
        self.memory_values = projection(
            hidden_dim // memory_heads, value_scale, dtype=dtype, name="memory_values"
        )
        self.query = None if is_single else projection(hidden_dim, dtype=dtype, name="query")
        self.output_projection = (
            None if is_single else projection(hidden_dim, output_init_scale, dtype=dtype, name="output")
        )

    def build(self, input_shape):
        super().build(input_shape)
        self.memory_keys.build((None, self.hidden_dim // self.memory_heads))
        self.memory_values.build((None, self.memory_size))
        if self.query is not None:
            self.query.build(input_shape)
            self.output_projection.build(input_shape)

    @property
    def exit_projections(self):
        return () if self.output_projection is None else (self.output_projection,)

    def mix(self, x, masks, training):
        x = zero_pads(x, masks.padding_mask)
        visible = masks.visible_keys(x, causal=False)  # [B,1,T]
        if self.query is None:
            return self._look_up(x, visible)
        heads = tf.transpose(split_heads(self.query(x), self.memory_heads), [0, 2, 1, 3])  # [B,H,T,D/H]
        found = self._look_up(heads, None if visible is None else tf.expand_dims(visible, 1))
        return self.output_projection(merge_heads(tf.transpose(found, [0, 2, 1, 3])))

    def _look_up(self, x, visible):
        """Reads the memories: [...,T,N] -> [...,T,N]; `visible` is a mask of tokens [...,1,T], or None."""
        logits = tf.cast(self.memory_keys(x), tf.float32)  # [...,T,S]
        weights = masked_softmax(tf.linalg.matrix_transpose(logits), visible)  # [...,S,T], 0 at pads
        weights = tf.linalg.matrix_transpose(weights)
        total = tf.reduce_sum(weights, axis=-1, keepdims=True)  # [...,T,1], 0 at pads too
        weights /= tf.maximum(total, 1e-6)  # not less, because TFLite may store it as float16
        return self.memory_values(tf.cast(weights, x.dtype))

    def cost(self, length):
        memories = 2 * self.memory_size * self.hidden_dim  # of all heads
        projections = 0 if self.query is None else 2 * self.hidden_dim**2
        return {
            "parameters": memories // self.memory_heads + projections,
            "multiply_adds": length * (memories + projections),
            "state_elements": 0,
        }

    def get_config(self):
        return {
            **super().get_config(),
            "memory_size": self.memory_size,
            "memory_heads": self.memory_heads,
            "output_init_scale": self.output_init_scale,
        }
