"""The GLU-conv block: a gate before a token mixer, optionally one after it, and a projection."""

import keras
import tensorflow as tf

from convnlp import kernels
from convnlp.layers.masks import MaskedLayer
from convnlp.layers.projection import projection


@keras.saving.register_keras_serializable(package="convnlp")
class GLUConvBlock(MaskedLayer):
    """The convolution sublayer of the paper, around any token mixer that has no projections of its own.

        X1 = (X W_I) * sigmoid(X W_S)
        X2 = mixer(X1)
        X3 = X2 W_O                        W_I, W_S, W_O: [D,D]

    Around a mixer with `double_gate = True` there are two gates, both linear:

        X3 = ((X W_C) * mixer((X W_B) * (X W_I))) W_O         W_I, W_B, W_C, W_O: [D,D]

    Source: Tay et al., 2021, "Are Pre-trained Convolutions Better than Pre-trained Transformers?", section
    3.2, https://arxiv.org/abs/2105.03322; the gated linear unit is from Dauphin et al., 2017,
    https://arxiv.org/abs/1612.08083. Two gates: the short convolution of Liquid AI's LFM2, 2025, class
    `Lfm2ShortConv` of https://github.com/huggingface/transformers.
    Departs from it: the matrices that X is multiplied by are stored side by side as one kernel, [D,2D] for
    W_I and W_S or [D,3D] for W_I, W_B and W_C, for a single matrix product; no biases (the release has some
    after the convolution).

    Masking, causality, packing: as in the mixer; gates and projections see one position at a time.
    Cost: beyond the mixer's, 3 D^2 parameters and as many multiply-adds per position; 4 D^2 with two gates.

    Args:
        mixer: a `TokenMixer` with `gated = True`.
        output_init_scale: float. Factor on the standard deviation of the initial W_O.
        **kwargs: `name` and `dtype` of the Keras layer.

    Example:
    ```python
    import numpy as np
    from convnlp.layers import GLUConvBlock, LightweightConv
    block = GLUConvBlock(LightweightConv(hidden_dim=8, num_heads=2, kernel_size=3))
    assert block(np.ones([2, 5, 8], "float32")).shape == (2, 5, 8)
    ```
    """

    def __init__(self, mixer, output_init_scale=1.0, **kwargs):
        super().__init__(**kwargs)
        self.mixer = mixer
        self.output_init_scale = output_init_scale
        self._num_factors = 3 if mixer.double_gate else 2
        self.gate = projection(self._num_factors * mixer.hidden_dim, dtype=self.dtype_policy, name="gate")
        self.output_projection = projection(
            mixer.hidden_dim, output_init_scale, dtype=self.dtype_policy, name="output"
        )

    def build(self, input_shape):
        self.gate.build(input_shape)
        self.mixer.build(input_shape)
        self.output_projection.build(input_shape)

    @property
    def entry_projections(self):
        """See `TokenMixer.entry_projections`."""
        return (self.gate,)  # Pads are zeroed after it.

    @property
    def exit_projections(self):
        """See `TokenMixer.exit_projections`."""
        return (self.output_projection,)

    def _gated(self, x, padding_mask=None):
        """Returns X1 and the factor of X2, or None if there is none: [B,T,D] each."""
        factors = self.gate(x)  # [B,T,2D or 3D]
        if not self.mixer.double_gate:
            return kernels.gated_linear_unit(factors, padding_mask), None
        linear, before, behind = tf.split(factors, 3, axis=-1)
        return kernels.zero_pads(linear * before, padding_mask), behind

    def _close(self, mixed, behind):
        return self.output_projection(mixed if behind is None else mixed * behind)

    def mix(self, x, masks, training):
        mask_of_gate = None
        if masks.padding_mask is not None and masks.prefix_mask is None and self.mixer.pads_are_zeros:
            # A mask is nearly free in the loop of the gate; in the mixer it would be a pass over x.
            mask_of_gate, masks = tf.cast(masks.padding_mask, tf.bool), masks._replace(padding_mask=None)
        gated, behind = self._gated(x, mask_of_gate)
        return self._close(self.mixer(gated, **masks._asdict(), training=training), behind)

    def init_state(self, batch_size, max_length):
        """See `TokenMixer.init_state`."""
        return self.mixer.init_state(batch_size, max_length)

    def step(self, x_chunk, state, index):
        """See `TokenMixer.step`: x_chunk [B,C,D] -> ([B,C,D], state)."""
        gated, behind = self._gated(x_chunk)
        mixed, state = self.mixer.step(gated, state, index)
        return self._close(mixed, behind), state

    def cost(self, length):
        """Like `TokenMixer.cost`, for one example of `length` tokens."""
        cost = dict(self.mixer.cost(length))
        projections = (self._num_factors + 1) * self.mixer.hidden_dim**2
        cost["parameters"] += projections
        cost["multiply_adds"] += projections * length
        return cost

    def get_config(self):
        return {
            **super().get_config(),
            "mixer": keras.saving.serialize_keras_object(self.mixer),
            "output_init_scale": self.output_init_scale,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "mixer": keras.saving.deserialize_keras_object(config["mixer"])})
