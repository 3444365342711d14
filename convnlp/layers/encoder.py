"""The encoder: one skeleton, any token mixer in each layer."""

import keras

from convnlp.layers.feed_forward import FeedForward
from convnlp.layers.glu_conv_block import GLUConvBlock
from convnlp.layers.residual import Residual
from convnlp.layers.stack import Stack, add_costs, mixing_sublayer, norm_cost


@keras.saving.register_keras_serializable(package="convnlp")
class EncoderLayer(keras.layers.Layer):
    """Token mixing, then feed-forward, each in a residual connection.

    Args:
        mixer: dict, the arguments of `build_mixer` (with "name", "hidden_dim").
        intermediate_dim: int. Inner width of the feed-forward sublayer.
        residual_form: "pre", "post" or "sublayer_output"; see `Residual`.
        dropout: float in [0, 1). Rate on each sublayer's output and inside the feed-forward sublayer.
        output_init_scale: float. Factor on the initial output projections of the sublayers.
    """

    def __init__(
        self, mixer, intermediate_dim, residual_form="pre", dropout=0.0, output_init_scale=1.0, **kwargs
    ):
        super().__init__(**kwargs)
        self.mixer_config = dict(mixer)
        self.intermediate_dim, self.residual_form = intermediate_dim, residual_form
        self.dropout_rate, self.output_init_scale = dropout, output_init_scale
        dtype = self.dtype_policy
        self.mixing = mixing_sublayer(mixer, output_init_scale, dtype)
        self.mixing_residual = Residual(residual_form, dropout, dtype=dtype, name="mixing_residual")
        self.feed_forward = FeedForward(
            intermediate_dim, dropout, output_init_scale, dtype=dtype, name="feed_forward"
        )
        self.feed_forward_residual = Residual(
            residual_form, dropout, dtype=dtype, name="feed_forward_residual"
        )

    def build(self, input_shape):
        for layer in (self.mixing, self.mixing_residual, self.feed_forward, self.feed_forward_residual):
            layer.build(input_shape)

    def call(self, x, padding_mask=None, segment_ids=None, training=False):
        """Args and Returns as `TokenMixer.call`: x [B,T,D] -> [B,T,D]."""
        y = self.mixing_residual.enter(x)
        y = self.mixing(y, padding_mask=padding_mask, segment_ids=segment_ids, training=training)
        x = self.mixing_residual.leave(x, y, training)
        return self.feed(x, training)

    def feed(self, x, training=False):
        """The feed-forward sublayer in its residual connection: [B,T,D] -> [B,T,D]."""
        y = self.feed_forward(self.feed_forward_residual.enter(x), training=training)
        return self.feed_forward_residual.leave(x, y, training)

    def receptive_field(self, length):
        """The number of positions that one output position can see."""
        mixer = self.mixing.mixer if isinstance(self.mixing, GLUConvBlock) else self.mixing
        return mixer.receptive_field(length)

    def cost(self, length):
        """The contract's cost of one example of `length` tokens."""
        dim = self.mixer_config["hidden_dim"]
        return add_costs(
            [self.mixing.cost(length), self.feed_forward.cost(length, dim), norm_cost(dim), norm_cost(dim)]
        )

    def get_config(self):
        return {
            **super().get_config(),
            "mixer": self.mixer_config,
            "intermediate_dim": self.intermediate_dim,
            "residual_form": self.residual_form,
            "dropout": self.dropout_rate,
            "output_init_scale": self.output_init_scale,
        }


@keras.saving.register_keras_serializable(package="convnlp")
class Encoder(Stack):
    """A stack of `EncoderLayer`s.

    Args:
        mixers: list of dicts, one `build_mixer` argument set per layer.
        intermediate_dim, residual_form, dropout: as in `EncoderLayer`.

    Example:
    ```python
    import numpy as np
    from convnlp.layers import Encoder
    mixers = [dict(name="lightweight_conv", hidden_dim=8, num_heads=2, kernel_size=k) for k in (3, 7)]
    assert Encoder(mixers, intermediate_dim=16)(np.ones([2, 5, 8], "float32")).shape == (2, 5, 8)
    ```
    """

    layer_class = EncoderLayer
    sublayers_per_layer = 2

    def __init__(self, mixers, intermediate_dim, residual_form="pre", dropout=0.0, **kwargs):
        arguments = {"intermediate_dim": intermediate_dim, "residual_form": residual_form, "dropout": dropout}
        super().__init__(mixers, arguments, **kwargs)

    def call(self, x, padding_mask=None, segment_ids=None, training=False):
        """Args and Returns as `TokenMixer.call`: x [B,T,D] -> [B,T,D]."""
        x = self.dropout(x, training=training)
        for layer in self.layers:
            x = layer(x, padding_mask=padding_mask, segment_ids=segment_ids, training=training)
        return self.finish(x, training)
