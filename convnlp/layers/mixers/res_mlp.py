"""ResMLP: one matrix over the positions, and affine maps instead of norms."""

import keras
import tensorflow as tf

from convnlp.kernels import zero_pads
from convnlp.layers.checks import require_count, require_heads, require_positive
from convnlp.layers.position_matrix import PositionMatrix
from convnlp.layers.token_mixer import TokenMixer


@keras.saving.register_keras_serializable(package="convnlp")
class ResMLP(TokenMixer):
    """A linear map over the positions, between an affine map and a scale per channel.

        Aff(x) = a * x + c                                   a, c: [D]
        y[i] = s * (sum_j A[i, j] Aff(x)[j] + b[i])          A: [L,L], b: [L], s: [D]

    A text of T <= L positions uses A[:T, :T] and b[:T]. With `matrix_heads` H > 1, there are H such A and b,
    each for a block of D / H neighbouring channels. Without `affine`, y[i] = sum_j A[i, j] x[j] + b[i]: the
    residual form "affine" (see `Residual`) then provides Aff and s, around the feed-forward sublayer too.
    Together, they are the source's layer.

    Source: Touvron et al., 2021, "ResMLP: Feedforward networks for image classification with data-efficient
    training", section 2, https://arxiv.org/abs/2105.03404.
    Departs from it: in the other residual forms, the skeleton's norm comes before Aff, and its feed-forward
    sublayer has no Aff and LayerScale; in all forms, that sublayer has ReLU; a lower-triangular A makes it
    causal; the heads.

    Masking: Aff(x) is zero at pads, so that their number does not matter. Causality: yes, A is lower
    triangular. Packing: positions are counted from the start of each text.
    Cost: H (L^2 + L) + 3 D parameters, 3 D fewer without `affine`; T^2 D multiply-adds, a state of T D
    elements.

    Args:
        hidden_dim: int. Width D.
        max_sequence_length: int. The longest text L, >= 1.
        layer_scale_init: float > 0. Initial s; the authors use 0.1 for up to 18 layers, 1e-5 for 24 and 1e-6
            for more. Defaults to `0.1`.
        causal: bool. Whether an output sees only its own and earlier positions. Defaults to `False`.
        matrix_heads: int. Number H of matrices; divides D. Defaults to `1`.
        affine: bool. Whether it has Aff and s. Defaults to `True`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, `matrix_heads` does not divide `hidden_dim`,
            `layer_scale_init` is not positive, or a text is longer than `max_sequence_length`.

    Example:
    >>> mixer = ResMLP(hidden_dim=8, max_sequence_length=16, causal=True)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> y, state = mixer.step(tf.ones([2, 1, 8]), mixer.init_state(batch_size=2, max_length=5), 0)
    >>> {name: value.shape for name, value in state.items()}
    {'inputs': TensorShape([2, 5, 8])}
    """

    name = "res_mlp"
    gated = False
    needs_max_length = True

    def __init__(
        self,
        hidden_dim,
        max_sequence_length,
        layer_scale_init=0.1,
        causal=False,
        matrix_heads=1,
        affine=True,
        **kwargs,
    ):
        super().__init__(hidden_dim, causal, **kwargs)
        require_count("max_sequence_length", max_sequence_length)
        require_heads(hidden_dim, matrix_heads, "matrix_heads")
        require_positive("layer_scale_init", layer_scale_init)
        self.max_sequence_length = max_sequence_length
        self.layer_scale_init = layer_scale_init
        self.matrix_heads = matrix_heads
        self.affine = affine
        self.matrix = PositionMatrix(
            max_sequence_length, causal, num_heads=matrix_heads, dtype=self.dtype_policy, name="matrix"
        )

    def build(self, input_shape):
        super().build(input_shape)
        self.matrix.build()
        if not self.affine:
            return
        for name, first in (("scale", 1.0), ("offset", 0.0), ("layer_scale", self.layer_scale_init)):
            initializer = keras.initializers.Constant(first)
            setattr(self, name, self.add_weight(name=name, shape=(self.hidden_dim,), initializer=initializer))

    def mix(self, x, masks, training):
        x = zero_pads(x, masks.padding_mask)
        if self.affine:
            x = zero_pads(self._affine(x), masks.padding_mask)
        return self._scaled(self.matrix(x, masks.segment_ids))

    def _affine(self, x):
        if not self.affine:
            return x
        return x * tf.cast(self.scale, x.dtype) + tf.cast(self.offset, x.dtype)

    def _scaled(self, y):
        return y * tf.cast(self.layer_scale, y.dtype) if self.affine else y

    def empty_state(self, batch_size, max_length):
        return {"inputs": self.matrix.empty_cache(batch_size, max_length, self.hidden_dim)}

    def advance(self, x_chunk, state, index):
        y, inputs = self.matrix.step(self._affine(x_chunk), state["inputs"], index)
        return self._scaled(y), {"inputs": inputs}

    def cost(self, length):
        return {
            "parameters": self.matrix.num_parameters() + (3 * self.hidden_dim if self.affine else 0),
            "multiply_adds": length**2 * self.hidden_dim,
            "state_elements": length * self.hidden_dim,
        }

    def get_config(self):
        return {
            **super().get_config(),
            "max_sequence_length": self.max_sequence_length,
            "layer_scale_init": self.layer_scale_init,
            "matrix_heads": self.matrix_heads,
            "affine": self.affine,
        }
