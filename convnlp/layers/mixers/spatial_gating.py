"""gMLP: half of the channels gate the other half, with a matrix over the positions; aMLP adds attention."""

import keras
import tensorflow as tf

from convnlp.kernels import zero_pads
from convnlp.layers.checks import require_count
from convnlp.layers.costs import add_costs
from convnlp.layers.position_matrix import PositionMatrix
from convnlp.layers.projection import layer_norm, projection
from convnlp.layers.tiny_attention import TinyAttention
from convnlp.layers.token_mixer import TokenMixer


@keras.saving.register_keras_serializable(package="convnlp")
class SpatialGating(TokenMixer):
    """A feed-forward layer with a gate that sees all positions.

        Z1, Z2 = split(gelu(X U))                            U: [D,E], Z1, Z2: [T,E/2]
        G[i] = sum_j W[i, j] LN(Z2)[j] + b[i]                W: [L,L], b: [L]
        Y = (Z1 * G) V                                       V: [E/2,D]

    A text of T <= L positions uses W[:T, :T] and b[:T]. With `toeplitz`, W[i, j] = w[j - i] and b is one
    number, so that texts may have any length. With `matrix_heads` H > 1, there are H such W and b, each for a
    block of neighbouring channels. With `tiny_attention_dim` A > 0 (aMLP), G += softmax(Q K^T) V' W_O with
    one head of A channels on X. W starts within 1e-3 / L and b at 1, which gives a plain feed-forward layer.

    Source: Liu et al., 2021, "Pay Attention to MLPs", sections 2 and 4.3, https://arxiv.org/abs/2105.08050.
    Departs from it: E is the skeleton's inner width, 4 D in its sizes and 6 D in the paper's; U and V have no
    biases; a lower-triangular W makes it causal; the Toeplitz form and the heads. As in the paper, no
    feed-forward layer follows.

    Masking: LN(Z2) is zero at pads, so that their number does not matter; attention masks them. Causality:
    yes, W is lower triangular. Packing: positions are counted from the start of each text.
    Cost: 3/2 D E + E + H (L^2 + L) parameters (if Toeplitz, 2 L, or L + 1 if causal, instead of L^2 + L),
    3/2 T D E + 1/2 T^2 E multiply-adds, a state of T E / 2 elements; attention adds 3 D A + A E / 2
    parameters, T (3 D A + A E / 2) + 2 T^2 A multiply-adds and 2 T A elements.

    Args:
        hidden_dim: int. Width D.
        intermediate_dim: int. Inner width E, which is split in two; even.
        max_sequence_length: int. The longest text L, >= 1; with `toeplitz`, positions L or more apart do not
            see each other.
        tiny_attention_dim: int. Width A of the attention, 64 in the paper; 0 for none. Defaults to `0`.
        toeplitz: bool. Whether W depends only on the distance. Defaults to `False`.
        causal: bool. Whether an output sees only its own and earlier positions. Defaults to `False`.
        output_init_scale: float. Factor on the standard deviation of the initial V. Defaults to `1.0`.
        matrix_heads: int. Number H of matrices; divides E / 2. Defaults to `1`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, `intermediate_dim` is odd, `matrix_heads` does not divide
            half of it, or a text is longer than `max_sequence_length` without `toeplitz`.

    Example:
    >>> mixer = SpatialGating(8, 16, max_sequence_length=16, tiny_attention_dim=4, causal=True)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> y, state = mixer.step(tf.ones([2, 1, 8]), mixer.init_state(batch_size=2, max_length=5), 0)
    >>> {name: value.shape[1:].as_list() for name, value in state.items()}
    {'gates': [5, 8], 'keys': [5, 4], 'values': [5, 4]}
    """

    name = "spatial_gating"
    needs_max_length = True
    gated = False
    contains_feed_forward = True

    def __init__(
        self,
        hidden_dim,
        intermediate_dim,
        max_sequence_length,
        tiny_attention_dim=0,
        toeplitz=False,
        causal=False,
        output_init_scale=1.0,
        matrix_heads=1,
        **kwargs,
    ):
        super().__init__(hidden_dim, causal, **kwargs)
        require_count("intermediate_dim", intermediate_dim)
        require_count("max_sequence_length", max_sequence_length)
        require_count("tiny_attention_dim", tiny_attention_dim, minimum=0)
        if intermediate_dim % 2:
            raise ValueError(
                f"`intermediate_dim` must be even. Received: intermediate_dim={intermediate_dim}"
            )
        require_count("matrix_heads", matrix_heads)
        if intermediate_dim // 2 % matrix_heads:
            raise ValueError(
                "`matrix_heads` must divide half of intermediate_dim. "
                f"Received: matrix_heads={matrix_heads}, intermediate_dim={intermediate_dim}"
            )
        self.max_sequence_length = max_sequence_length
        self.intermediate_dim = intermediate_dim
        self.tiny_attention_dim = tiny_attention_dim
        self.toeplitz = toeplitz
        self.matrix_heads = matrix_heads
        self.output_init_scale = output_init_scale
        self.needs_max_length = not toeplitz
        dtype, small = self.dtype_policy, 1e-3 / max_sequence_length
        self.input_projection = projection(intermediate_dim, dtype=dtype, name="input")
        self.norm = layer_norm(dtype=dtype, name="norm")
        self.matrix = PositionMatrix(
            max_sequence_length,
            causal,
            toeplitz,
            kernel_initializer=keras.initializers.RandomUniform(-small, small),
            bias_initializer="ones",
            num_heads=matrix_heads,
            dtype=dtype,
            name="matrix",
        )
        self.attention = None
        if tiny_attention_dim:
            self.attention = TinyAttention(
                tiny_attention_dim, intermediate_dim // 2, dtype=dtype, name="attention"
            )
        self.output_projection = projection(hidden_dim, output_init_scale, dtype=dtype, name="output")

    def build(self, input_shape):
        super().build(input_shape)
        half = (*input_shape[:-1], self.intermediate_dim // 2)
        self.input_projection.build(input_shape)
        self.norm.build(half)
        self.matrix.build()
        self.output_projection.build(half)
        if self.attention is not None:
            self.attention.build(input_shape)

    def _halves(self, x):
        """Returns Z1 and LN(Z2), [B,T,E/2] each."""
        z = keras.activations.gelu(self.input_projection(x), approximate=False)
        z1, z2 = tf.split(z, 2, axis=2)
        return z1, self.norm(z2)

    @property
    def exit_projections(self):
        return (self.output_projection,)

    def mix(self, x, masks, training):
        x = zero_pads(x, masks.padding_mask)
        z1, z2 = self._halves(x)
        gate = self.matrix(zero_pads(z2, masks.padding_mask), masks.segment_ids)  # [B,T,E/2]
        if self.attention is not None:
            gate += self.attention(x, masks.visible_keys(x, self.causal))
        return self.output_projection(z1 * gate)

    def empty_state(self, batch_size, max_length):
        state = {"gates": self.matrix.empty_cache(batch_size, max_length, self.intermediate_dim // 2)}
        if self.attention is not None:
            state.update(self.attention.empty_state(batch_size, max_length))
        return state

    def advance(self, x_chunk, state, index):
        z1, z2 = self._halves(x_chunk)
        gate, gates = self.matrix.step(z2, state["gates"], index)
        next_state = {"gates": gates}
        if self.attention is not None:
            attended, attention_state = self.attention.step(x_chunk, state, index)
            gate += attended
            next_state.update(attention_state)
        return self.output_projection(z1 * gate), next_state

    def receptive_field(self, length):
        if self.attention is not None or not self.toeplitz:
            return length
        reach = self.max_sequence_length if self.causal else 2 * self.max_sequence_length - 1
        return min(length, reach)

    def cost(self, length):
        half = self.intermediate_dim // 2
        projections = self.hidden_dim * (self.intermediate_dim + half)
        cost = {
            "parameters": projections + 2 * half + self.matrix.num_parameters(),
            "multiply_adds": length * projections + length**2 * half,
            "state_elements": length * half,
        }
        if self.attention is not None:
            cost = add_costs([cost, self.attention.cost(length, self.hidden_dim)])
        return cost

    def get_config(self):
        return {
            **super().get_config(),
            "max_sequence_length": self.max_sequence_length,
            "intermediate_dim": self.intermediate_dim,
            "tiny_attention_dim": self.tiny_attention_dim,
            "toeplitz": self.toeplitz,
            "matrix_heads": self.matrix_heads,
            "output_init_scale": self.output_init_scale,
        }
