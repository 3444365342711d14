"""Linear attention: keeps all that was seen as one sum, from which each position reads by content."""

import math

import keras
import tensorflow as tf

from convnlp import kernels
from convnlp.kernels import merge_heads, split_heads, zero_pads
from convnlp.layers.checks import require_count, require_heads
from convnlp.layers.projection import projection
from convnlp.layers.short_conv import ShortConv
from convnlp.layers.states import nest, unnest
from convnlp.layers.token_mixer import TokenMixer


@keras.saving.register_keras_serializable(package="convnlp")
class LinearAttention(TokenMixer):
    """Attention with a second-order Taylor series in place of the exponential: a product of features.

        U = ShortConv(X),  Q, K = U W_Q, U W_K, [T,d] for each of H heads,  V = X W_V, [T,D/H] for each
        S = sum_j phi(k_j) v_j^T,  z = sum_j phi(k_j)                       over the positions j that i sees
        y_i = concat_h(S^T phi(q_i) / z^T phi(q_i)) * SiLU(x_i W_G) W_O
        phi(u) = [1, u, vec(u u^T) / sqrt(2)], so that phi(q)^T phi(k) = 1 + s + s^2 / 2 with s = q^T k

    The factor d^(-1/4) on q and on k is part of the initial W_Q and W_K instead of the equation. U is a
    depthwise convolution of K taps: without it, a query could find a token, but not the token next to it. S
    and z are float32. Each weight is at least 1/2, so z^T phi(q) needs no constant that keeps it from zero.

    Source: Arora et al., 2024, "Simple linear attention language models balance the recall-throughput
    tradeoff" (Based), https://arxiv.org/abs/2402.18668: its linear attention.
    Departs from it: the short convolution, a separate layer there, comes before queries and keys; the gate; d
    is 8, not 16 as in the authors' code; no windowed attention beside it; both directions.

    Masking: pads are not part of the sums. Causality: yes, by running sums. Packing: each text has its own
    sums. Order: known from the convolution or, if causal, from the direction.
    Cost: with F = 1 + d + d (d + 1) / 2 features (45 for d = 8; of the equation's 1 + d + d^2 = 73, 28 are
    duplicates), 3 D^2 + 2 H d D + K D parameters and as many multiply-adds per position, and for the sums:

    | row | further multiply-adds |
    | --- | --- |
    | up to 128 positions, with any masks: pair by pair, which is faster | T^2 (H d + D + 2 H) |
    | longer | 2 T F (D + H) + 2 T H d^2 (d + 1), the second term for phi |
    | longer and causal: pairs within blocks of 128, T rounded up to these | 128 T (H d + D + 2 H) more |
    | longer, both directions, packed or with a prefix | another 2 T F (D + H) more |

    Packed rows of more than 128 positions also take (T / 128)^2 F (D + H) per direction to add up the blocks
    of each text: not linear, but less than a tenth of the total up to 2,048 positions. A state of F (D + H) +
    (K - 1) D elements, whatever the length.

    Args:
        hidden_dim: int. Width D.
        num_heads: int. Number H of heads; divides D.
        feature_dim: int. Width d of queries and keys, >= 1. Defaults to `8`.
        short_kernel_size: int. Number K of taps of the short convolution, >= 1. Defaults to `3`.
        causal: bool. Whether an output sees only its own and earlier positions. Defaults to `False`.
        output_init_scale: float. Factor on the standard deviation of the initial W_O. Defaults to `1.0`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int or `num_heads` does not divide `hidden_dim`.

    Example:
    >>> mixer = LinearAttention(hidden_dim=8, num_heads=2, causal=True)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> y, state = mixer.step(tf.ones([2, 1, 8]), mixer.init_state(batch_size=2, max_length=5), 0)
    >>> {name: value.shape for name, value in state.items()}
    {'sums': TensorShape([2, 2, 45, 5]), 'convolution/inputs': TensorShape([2, 2, 8])}
    """

    name = "linear_attention"
    supports_prefix = True
    supports_right_to_left = True
    gated = False

    def __init__(
        self,
        hidden_dim,
        num_heads,
        feature_dim=8,
        short_kernel_size=3,
        causal=False,
        output_init_scale=1.0,
        **kwargs,
    ):
        super().__init__(hidden_dim, causal, **kwargs)
        require_heads(hidden_dim, num_heads)
        require_count("feature_dim", feature_dim)
        require_count("short_kernel_size", short_kernel_size)
        self.num_heads = num_heads
        self.feature_dim = feature_dim
        self.short_kernel_size = short_kernel_size
        self.output_init_scale = output_init_scale
        self.knows_order = causal or short_kernel_size > 1
        dtype, compared, scale = self.dtype_policy, num_heads * feature_dim, feature_dim**-0.25
        self.convolution = ShortConv(hidden_dim, short_kernel_size, causal, dtype=dtype, name="convolution")
        self.query = projection(compared, scale, dtype=dtype, name="query")
        self.key = projection(compared, scale, dtype=dtype, name="key")
        self.value = projection(hidden_dim, dtype=dtype, name="value")
        self.gate = projection(hidden_dim, dtype=dtype, name="gate")
        self.output_projection = projection(hidden_dim, output_init_scale, dtype=dtype, name="output")

    def build(self, input_shape):
        super().build(input_shape)
        parts = (self.convolution, self.query, self.key, self.value, self.gate, self.output_projection)
        for layer in parts:
            layer.build(input_shape)

    @property
    def _sizes(self):
        """H, d and D / H."""
        return self.num_heads, self.feature_dim, self.hidden_dim // self.num_heads

    def _heads(self, x, convolved):
        """Returns queries and keys [B,T,H,d] and values [B,T,H,D/H] for X and U, [B,T,D] each."""
        projected = self.query(convolved), self.key(convolved), self.value(x)
        return tuple(split_heads(part, self.num_heads) for part in projected)

    def _close(self, x, mixed):
        """Applies the gate and the output projection: x [B,T,D] and the heads [B,T,H,D/H] -> [B,T,D]."""
        gate = self.gate(x)
        return self.output_projection(merge_heads(mixed) * gate * tf.sigmoid(gate))

    @property
    def exit_projections(self):
        return (self.output_projection,)

    def mix(self, x, masks, training):
        x = zero_pads(x, masks.padding_mask)
        convolved = self.convolution.mix(x, masks._replace(padding_mask=None), training)
        heads, masks = self._heads(x, convolved), masks._asdict()
        if masks.pop("right_to_left"):  # causal attention in the reversed row
            heads = [tf.reverse(part, [1]) for part in heads]
            masks = {k: v if v is None else tf.reverse(v, [1]) for k, v in masks.items()}
            mixed = tf.reverse(kernels.taylor_attention(*heads, **masks, causal=True), [1])
        else:
            mixed = kernels.taylor_attention(*heads, **masks, causal=self.causal)
        return self._close(x, mixed)

    def empty_state(self, batch_size, max_length):
        shape = [batch_size, *kernels.taylor_memory_shape(*self._sizes)]
        return {
            "sums": tf.zeros(shape, tf.float32),  # [S, z]
            **nest("convolution", self.convolution.empty_state(batch_size, max_length)),
        }

    def advance(self, x_chunk, state, index):
        convolved, window = self.convolution.advance(x_chunk, unnest("convolution", state), index)
        mixed, sums = kernels.taylor_attention_step(*self._heads(x_chunk, convolved), state["sums"])
        return self._close(x_chunk, mixed), {"sums": sums, **nest("convolution", window)}

    def cost(self, length):
        dim, sizes = self.hidden_dim, self._sizes
        projections = 3 * dim**2 + 2 * self.num_heads * self.feature_dim * dim
        convolution = self.convolution.cost(length)
        return {
            "parameters": projections + convolution["parameters"],
            "multiply_adds": length * projections
            + convolution["multiply_adds"]
            + kernels.taylor_attention_cost(length, *sizes, self.causal),
            "state_elements": math.prod(kernels.taylor_memory_shape(*sizes)) + convolution["state_elements"],
        }

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "feature_dim": self.feature_dim,
            "short_kernel_size": self.short_kernel_size,
            "output_init_scale": self.output_init_scale,
        }
