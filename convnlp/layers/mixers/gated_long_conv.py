"""Gated long convolution: taps for every distance, made of a few damped cosines, and a gate after them."""

import math

import keras
import tensorflow as tf

from convnlp import kernels
from convnlp.kernels import zero_pads
from convnlp.layers.checks import require_count, require_heads
from convnlp.layers.projection import projection
from convnlp.layers.token_mixer import TokenMixer

_LONGEST = 256  # positions; the largest initial 1 / lambda


@keras.saving.register_keras_serializable(package="convnlp")
class GatedLongConv(TokenMixer):
    """A convolution as long as the text, with a projection before and a gate after it.

        u_i = gelu(x_i W_U),  g_i = gelu(x_i W_G),  y_i = (g_i * sum_j t[h(c), i - j] u_j) W_O
        t[h, l] = sum_s a[h, s] exp(-lambda[h, s] |l|) cos(omega[h, s] l)      lambda > 0, h(c) = c // (D / H)

    W_U, W_G, W_O: [D,D]. Each of H heads has S damped cosines for the position itself and those before it (l
    >= 0), and S others for those after it. The taps do not depend on the text: unlike attention, this mixer
    has range without content. Initially, 1 / lambda is spread from 1 to 256 positions over waves and heads,
    on a logarithmic scale, and omega is a random share of pi lambda. The weight is log(lambda).

    Source: Gu et al., 2022, "On the Parameterization and Initialization of Diagonal State Space Models"
    (S4D), https://arxiv.org/abs/2206.11893, for taps that are sums of damped waves; Wang et al., 2022,
    "Pretraining Without Attention" (BiGS), https://arxiv.org/abs/2212.10544, for such taps in both directions
    in a gated encoder without attention.
    Departs from it: real amplitudes, hence no phases, and other initial values; H kernels, each for a block
    of channels, where BiGS has one for all; both directions are added, where BiGS multiplies a projection of
    each; computed by matrix products in blocks instead of Fourier transforms.

    Masking: inputs at pads are zero. Causality: yes, as a linear recurrence. Packing: each text is convolved
    separately.
    Cost: 3 D^2 + 3 Z H S parameters for Z sides, 2 or 1 if causal; 3 T D^2 + T^2 D + Z T H S multiply-adds up
    to T = 128; for longer texts, rounded up to N blocks of 128, 3 T D^2 + 128^2 N D + 4 Z S D (128 N + N^2) +
    128 Z H S; a state of 2 S D elements, whatever the length.

    Args:
        hidden_dim: int. Width D.
        num_heads: int. Number H of different kernels; divides D.
        num_waves: int. Number S of damped cosines of a kernel in each direction, >= 1. Defaults to `8`.
        causal: bool. Whether an output sees only its own and earlier positions. Defaults to `False`.
        output_init_scale: float. Factor on the standard deviation of the initial W_O. Defaults to `1.0`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int or `num_heads` does not divide `hidden_dim`.

    Example:
    >>> mixer = GatedLongConv(hidden_dim=8, num_heads=2, causal=True)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> y, state = mixer.step(tf.ones([2, 1, 8]), mixer.init_state(batch_size=2, max_length=5), 0)
    >>> {name: value.shape for name, value in state.items()}
    {'waves': TensorShape([2, 2, 8, 2, 4])}
    """

    name = "gated_long_conv"
    supports_prefix = True
    supports_right_to_left = True
    gated = False

    def __init__(self, hidden_dim, num_heads, num_waves=8, causal=False, output_init_scale=1.0, **kwargs):
        super().__init__(hidden_dim, causal, **kwargs)
        require_heads(hidden_dim, num_heads)
        require_count("num_waves", num_waves)
        self.num_heads = num_heads
        self.num_waves = num_waves
        self.output_init_scale = output_init_scale
        dtype = self.dtype_policy
        self.input_projection = projection(2 * hidden_dim, dtype=dtype, name="input")  # W_U and W_G
        self.output_projection = projection(hidden_dim, output_init_scale, dtype=dtype, name="output")

    def build(self, input_shape):
        super().build(input_shape)
        self.input_projection.build(input_shape)
        self.output_projection.build(input_shape)
        decay = tf.constant(self._first_decay())
        angle = keras.initializers.RandomUniform(0.0, math.pi)
        # so that the output of the convolution is about as large as its input
        size = tf.sqrt((1 - tf.exp(-2 * decay)) / self.num_waves / self._sides)
        normal = keras.initializers.RandomNormal(stddev=1.0)
        # These are vectors so that weight decay skips them: it would pull 1 / lambda to 1 and omega to 0.
        self.log_decay = self._add_vector("log_decay", lambda shape: tf.math.log(decay))
        self.frequency = self._add_vector("frequency", lambda shape: decay * angle(shape))
        self.amplitude = self._add_vector("amplitude", lambda shape: size * normal(shape))

    @property
    def _sides(self):
        return 1 if self.causal else 2

    @property
    def _shape(self):
        """[Z,H,S]."""
        return self._sides, self.num_heads, self.num_waves

    def _first_decay(self):
        """Returns the initial lambda: Z*H*S floats."""
        heads, waves = range(self.num_heads), range(self.num_waves)
        one_side = [_LONGEST ** (-(s + h / self.num_heads) / self.num_waves) for h in heads for s in waves]
        return self._sides * one_side

    def _add_vector(self, name, first):
        """Adds a weight [Z*H*S] that is read in float32; `first` returns its initial value for a shape."""
        return self.add_weight(
            name=name,
            shape=(math.prod(self._shape),),
            initializer=lambda shape, dtype: tf.cast(first(shape), dtype),
            autocast=False,
        )

    def _waves(self):
        """Returns the waves of each direction, those of the past first."""
        weights = (tf.exp(self.log_decay), self.frequency, self.amplitude)
        sides = zip(*(tf.unstack(tf.reshape(weight, self._shape)) for weight in weights), strict=True)
        return [kernels.Waves(*side) for side in sides]

    def _project(self, x):
        """Returns the inputs u and the gate g of x [B,T,D], [B,T,D] each."""
        return tf.split(tf.nn.gelu(self.input_projection(x), approximate=True), 2, axis=2)

    @property
    def exit_projections(self):
        return (self.output_projection,)

    def mix(self, x, masks, training):
        inputs, gate = self._project(zero_pads(x, masks.padding_mask))  # 0 at pads
        if masks.right_to_left:
            mixed = self._convolve_what_follows(inputs, masks.segment_ids)
        else:
            seen = {"segment_ids": masks.segment_ids, "prefix_mask": masks.prefix_mask}
            mixed = kernels.long_conv(inputs, *self._waves(), **seen)
        return self.output_projection(gate * mixed)

    def _convolve_what_follows(self, inputs, segment_ids):
        """Convolves each position with itself and those after it, [B,T,D], in the reversed row.

        In the reversed row, the waves of the future also apply to the position itself, which has those of the
        past: their difference at distance 0 is added.
        """
        past, future = self._waves()
        reversed_ids = None if segment_ids is None else tf.reverse(segment_ids, [1])
        behind = tf.reverse(kernels.long_conv(tf.reverse(inputs, [1]), future, None, reversed_ids), [1])
        own = tf.reduce_sum(past.amplitude - future.amplitude, axis=1)  # [H], at distance 0
        own = tf.repeat(own, self.hidden_dim // self.num_heads)  # [D]
        return behind + inputs * tf.cast(own, inputs.dtype)

    def empty_state(self, batch_size, max_length):
        axes = kernels.long_conv_state_shape(self.hidden_dim, self.num_heads, self.num_waves)
        return {"waves": tf.zeros([batch_size, *axes], tf.float32)}

    def advance(self, x_chunk, state, index):
        inputs, gate = self._project(x_chunk)
        mixed, waves = kernels.long_conv_step(inputs, *self._waves(), state["waves"])
        return self.output_projection(gate * mixed), {"waves": tf.ensure_shape(waves, state["waves"].shape)}

    def cost(self, length):
        sizes = (self.hidden_dim, self.num_heads, self.num_waves)
        projections = 3 * self.hidden_dim**2
        return {
            "parameters": projections + 3 * math.prod(self._shape),
            "multiply_adds": length * projections + kernels.long_conv_cost(length, *sizes, self.causal),
            "state_elements": math.prod(kernels.long_conv_state_shape(*sizes)),
        }

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "num_waves": self.num_waves,
            "output_init_scale": self.output_init_scale,
        }
