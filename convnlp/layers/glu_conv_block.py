"""The GLU-conv block: a gate in front of a token mixer and a projection behind it."""

import keras
import tensorflow as tf

from convnlp import kernels
from convnlp.layers.masks import MaskedLayer
from convnlp.layers.projection import projection


@keras.saving.register_keras_serializable(package="convnlp")
class GLUConvBlock(MaskedLayer):
    """The convolution sublayer of the paper, around any token mixer without projections of its own.

        X1 = (X W_I) * sigmoid(X W_S)
        X2 = mixer(X1)
        X3 = X2 W_O                        W_I, W_S, W_O: [D,D]

    Source: Tay et al., 2021, "Are Pre-trained Convolutions Better than Pre-trained Transformers?", section
    3.2, https://arxiv.org/abs/2105.03322; the gated linear unit is of Dauphin et al., 2017.
    Departs from it: W_I and W_S are stored side by side as one [D,2D] kernel, which is one matrix product
    instead of two; no bias (the release has one behind the convolution).

    Masking, causality, packing: those of the mixer; the gate and the projection see one position at a time.
    Cost: 3 D^2 multiply-adds per position beside the mixer's.

    Args:
        mixer: a `TokenMixer` with `gated = True`.
        output_init_scale: float. Factor on the standard deviation of the initial W_O.

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
        self.gate = projection(2 * mixer.hidden_dim, dtype=self.dtype_policy, name="gate")
        self.output_projection = projection(
            mixer.hidden_dim, output_init_scale, dtype=self.dtype_policy, name="output"
        )

    def build(self, input_shape):
        self.gate.build(input_shape)
        self.mixer.build(input_shape)
        self.output_projection.build(input_shape)

    def _gated(self, x, padding_mask=None):
        return kernels.gated_linear_unit(self.gate(x), padding_mask)  # [B,T,D]

    def mix(self, x, masks, training):
        mask_of_gate = None
        if masks.padding_mask is not None and masks.prefix_mask is None and self.mixer.pads_are_zeros:
            # In the loop of the gate a mask is nearly free; in the mixer it is a pass over x.
            mask_of_gate, masks = tf.cast(masks.padding_mask, tf.bool), masks._replace(padding_mask=None)
        mixed = self.mixer(self._gated(x, mask_of_gate), **masks._asdict(), training=training)
        return self.output_projection(mixed)

    def init_state(self, batch_size, max_length):
        """As `TokenMixer.init_state`."""
        return self.mixer.init_state(batch_size, max_length)

    def step(self, x_chunk, state, index):
        """As `TokenMixer.step`: x_chunk [B,C,D] -> ([B,C,D], state)."""
        mixed, state = self.mixer.step(self._gated(x_chunk), state, index)
        return self.output_projection(mixed), state

    def cost(self, length):
        """The contract's cost of one example of `length` tokens."""
        cost = dict(self.mixer.cost(length))
        projections = 3 * self.mixer.hidden_dim**2
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
