"""What the encoder and the decoder share: a stack of layers that differ only in their mixer."""

import keras

from convnlp.layers.costs import add_costs, norm_cost
from convnlp.layers.dropout import Dropout
from convnlp.layers.glu_conv_block import GLUConvBlock
from convnlp.layers.mixers import build_mixer
from convnlp.layers.residual import needs_final_norm, norm_of


def mixing_sublayer(mixer, output_init_scale, dtype):
    """Builds the token-mixing sublayer of a layer: the mixer, in a `GLUConvBlock` if it is `gated`.

    Args:
        mixer: dict, the arguments of `build_mixer`.
        output_init_scale: float. Factor on the standard deviation of the initial output projection.
        dtype: the dtype policy.

    Returns:
        The mixer or the block, a Keras layer [B,T,D] -> [B,T,D].
    """
    mixer = build_mixer(**mixer, output_init_scale=output_init_scale, dtype=dtype)
    return GLUConvBlock(mixer, output_init_scale, dtype=dtype, name="mixing") if mixer.gated else mixer


class Stack(keras.layers.Layer):
    """Dropout, the layers, and a final norm if the residual form needs one.

    Args:
        mixers: list of dicts, the arguments of `build_mixer` for each layer.
        layer_arguments: dict, the other arguments of `layer_class`, the same for all layers; includes
            "residual_form" and "dropout".
        **kwargs: `name` and `dtype` of the Keras layer.
    """

    layer_class = None
    sublayers_per_layer = None

    def __init__(self, mixers, layer_arguments, **kwargs):
        super().__init__(**kwargs)
        self.mixers = [dict(mixer) for mixer in mixers]
        self.layer_arguments = dict(layer_arguments)
        dtype = self.dtype_policy
        # The sum of n sublayers of unit variance would have variance n, so each is scaled by 1/sqrt(n).
        scale = (self.sublayers_per_layer * max(len(mixers), 1)) ** -0.5
        self.layers = [
            self.layer_class(
                mixer, **layer_arguments, output_init_scale=scale, dtype=dtype, name=f"layer_{i}"
            )
            for i, mixer in enumerate(self.mixers)
        ]
        self.dropout = Dropout(layer_arguments["dropout"], dtype=dtype, name="dropout")
        self.final_norm = None
        if mixers and needs_final_norm(layer_arguments["residual_form"]):
            self.final_norm = norm_of(layer_arguments["residual_form"], dtype=dtype, name="final_norm")

    def build(self, input_shape):
        for layer in self.layers:
            layer.build(input_shape)
        if self.final_norm is not None:
            self.final_norm.build(input_shape)

    def compute_output_spec(self, x, *args, **kwargs):
        """Returns the spec of the output: [B,T,D] -> [B,T',D], without tracing layers that are built."""
        if not all(layer.built for layer in self._flatten_layers()):  # a mixer may build parts when called
            return super().compute_output_spec(x, *args, **kwargs)
        batch, length, dim = x.shape
        return keras.KerasTensor([batch, length and self.output_length(length), dim], self.compute_dtype)

    def output_length(self, length):
        """Returns T' for T = `length`."""
        return length

    def finish(self, x, training=False):
        """Applies the norm and dropout after the last layer: [B,T,D] -> [B,T,D]."""
        x = x if self.final_norm is None else self.final_norm(x)
        return self.dropout(x, training=training)

    @property
    def strides(self):
        """How many input positions each position of a layer covers, as a list over the layers."""
        return [1] * len(self.layers)

    def longest_text(self):
        """Returns the largest number of input positions that all mixers support, or None for no limit."""
        return min(
            (
                layer.mixer.longest_text * stride
                for layer, stride in zip(self.layers, self.strides, strict=True)
                if layer.mixer.longest_text is not None
            ),
            default=None,
        )

    def cost(self, *lengths):
        """Like `TokenMixer.cost`, summed over the layers; the arguments are those of their `cost`."""
        return self.total_cost([layer.cost(*lengths) for layer in self.layers])

    def total_cost(self, costs):
        """Returns the sum of the layers' costs and the final norm's."""
        if self.final_norm is not None:
            costs = [*costs, norm_cost(self.mixers[0]["hidden_dim"])]
        return add_costs(costs)

    def get_config(self):
        return {**super().get_config(), "mixers": self.mixers, **self.layer_arguments}
