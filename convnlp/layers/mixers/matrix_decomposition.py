"""Hamburger: replaces each text with a low-rank approximation of itself, found anew for each text."""

import keras
import tensorflow as tf

from convnlp import kernels
from convnlp.kernels import zero_pads
from convnlp.layers.checks import require_count
from convnlp.layers.projection import projection
from convnlp.layers.token_mixer import TokenMixer

_EPSILON = 1e-6  # added to divisors; the authors' value


@keras.saving.register_keras_serializable(package="convnlp")
class MatrixDecomposition(TokenMixer):
    """Non-negative matrix factorisation of the positions, between two projections.

        Z = relu(X W_l),  Y = M(Z) W_u,  M(Z) = C B                              W_l, W_u: [D,D]
        C = softmax_r(Z B^T)                                                     C: [T,R], B: [R,D]
        C <- C * (Z B^T) / (C B B^T)                                             once, then K times:
        B <- B * (C^T Z) / (C^T C B),  C <- C * (Z B^T) / (C B B^T)

    All positions of a text contribute to the R rows of B. These start as random numbers between 0 and 1, with
    each row scaled to norm 1; they come from a seed and are the same for every text, layer and run. The
    gradient passes only through the last of the K updates of B and C, whose starting values count as
    constant.

    Source: Geng et al., 2021, "Is Attention Better Than Matrix Decomposition?" (Hamburger),
    https://arxiv.org/abs/2109.04553: its algorithm for non-negative matrix factorisation, and its one-step
    gradient; initial values and the order of the updates are those of the authors' code.
    Departs from it: the code draws B anew in each call, passes the gradient only through the last update of
    C, from which a position learns nothing about the others, and takes one more step in inference; no bias,
    and no batch norm after W_u, whose statistics would include pads.

    Masking: Z, and so C, is zero at pads, which therefore add to no sum. Causality: no, B sees all positions.
    Packing: no. Order: does not matter to it, so a model adds positions.
    Cost: 2 D^2 parameters; 2 T D^2 + (2 K + 2) T R D + (2 K + 1) (T + D) R^2 multiply-adds. The gradient adds
    little: it needs two products for each product of the last step only.

    Args:
        hidden_dim: int. Width D.
        rank: int. Number R of rows of B, >= 1. Defaults to `64`.
        num_steps: int. Number K of updates, >= 1. Defaults to `6`.
        seed: int >= 0. Seed of the initial B. Defaults to `0`.
        causal: bool. Must be False.
        output_init_scale: float. Factor on the standard deviation of the initial W_u. Defaults to `1.0`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, `seed` is not an int >= 0, or `causal` is True.

    Example:
    >>> mixer = MatrixDecomposition(hidden_dim=8, rank=4)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> mixer.cost(5)
    {'parameters': 128, 'multiply_adds': 5584, 'state_elements': 0}
    """

    name = "matrix_decomposition"
    supports_causal = False
    supports_step = False
    supports_packing = False
    knows_order = False
    gated = False

    def __init__(
        self, hidden_dim, rank=64, num_steps=6, seed=0, causal=False, output_init_scale=1.0, **kwargs
    ):
        super().__init__(hidden_dim, causal, **kwargs)
        require_count("rank", rank)
        require_count("num_steps", num_steps)
        require_count("seed", seed, minimum=0)
        self.rank = rank
        self.num_steps = num_steps
        self.seed = seed
        self.output_init_scale = output_init_scale
        dtype = self.dtype_policy
        self.input_projection = projection(hidden_dim, dtype=dtype, name="input")  # W_l
        self.output_projection = projection(hidden_dim, output_init_scale, dtype=dtype, name="output")  # W_u

    def build(self, input_shape):
        super().build(input_shape)
        self.input_projection.build(input_shape)
        self.output_projection.build(input_shape)
        with tf.init_scope():
            shape, seed = [self.rank, self.hidden_dim], [0, self.seed]
            bases = tf.random.stateless_uniform(shape, seed, alg="philox")
            # An array, so that it can be a constant in any graph.
            self.first_bases = tf.math.l2_normalize(bases, axis=1).numpy()

    @property
    def exit_projections(self):
        return (self.output_projection,)

    def mix(self, x, masks, training):
        z = kernels.relu(self.input_projection(zero_pads(x, masks.padding_mask)))  # [B,T,D], 0 at pads
        z = tf.cast(z, tf.float32)  # under any dtype policy, because it divides sums over the text
        return self.output_projection(tf.cast(self._decomposed(z), x.dtype))

    def _decomposed(self, z):
        """Returns M(Z): float32 [B,T,D] -> [B,T,D]."""
        constant = tf.stop_gradient(z)
        bases = tf.constant(self.first_bases)  # [R,D]
        product = kernels.project(constant, tf.transpose(bases))  # [B,T,R]
        overlap = kernels.project(tf.nn.softmax(product), tf.matmul(bases, bases, transpose_b=True))
        codes = _update(tf.nn.softmax(product), product, overlap)  # [B,T,R]
        for step in range(self.num_steps):
            last = step == self.num_steps - 1
            bases, codes = _step(z if last else constant, bases, codes)
            if not last:
                bases, codes = tf.stop_gradient(bases), tf.stop_gradient(codes)
        return tf.matmul(codes, bases)

    def cost(self, length):
        dim, rank, steps = self.hidden_dim, self.rank, self.num_steps
        return {
            "parameters": 2 * dim**2,
            "multiply_adds": 2 * length * dim**2
            + (2 * steps + 2) * length * rank * dim
            + (2 * steps + 1) * (length + dim) * rank**2,
            "state_elements": 0,
        }

    def get_config(self):
        return {
            **super().get_config(),
            "rank": self.rank,
            "num_steps": self.num_steps,
            "seed": self.seed,
            "output_init_scale": self.output_init_scale,
        }


def _step(z, bases, codes):
    """Updates B, then C, for z [B,T,D], bases [R,D] or [B,R,D] and codes [B,T,R]."""
    product = tf.matmul(codes, z, transpose_a=True)  # [B,R,D]
    bases = _update(bases, product, tf.matmul(tf.matmul(codes, codes, transpose_a=True), bases))
    product = tf.matmul(z, bases, transpose_b=True)  # [B,T,R]
    codes = _update(codes, product, tf.matmul(codes, tf.matmul(bases, bases, transpose_b=True)))
    return bases, codes


def _update(factor, product, approximation):
    """Returns a factor after its multiplicative update: times the quotient of product and approximation."""
    return factor * product / (approximation + _EPSILON)
