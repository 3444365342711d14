"""The encoder: one skeleton, any token mixer in each layer."""

import contextlib
import itertools
import math
import operator

import keras
import tensorflow as tf

from convnlp.layers.checks import require_count
from convnlp.layers.costs import add_costs
from convnlp.layers.feed_forward import FeedForward
from convnlp.layers.glu_conv_block import GLUConvBlock
from convnlp.layers.masks import MaskedLayer, Masks
from convnlp.layers.residual import Residual
from convnlp.layers.stack import Stack, mixing_sublayer
from convnlp.layers.token_pooling import MaskPooling, pool_tokens


@keras.saving.register_keras_serializable(package="convnlp")
class EncoderLayer(MaskedLayer):
    """Token mixing, then feed-forward, each in a residual connection.

    A mixer that contains a feed-forward network gets no feed-forward sublayer.

    Args:
        mixer: dict, the arguments of `build_mixer`, including "name" and "hidden_dim".
        intermediate_dim: int. Inner width of the feed-forward sublayer.
        residual_form: "pre", "post", "sublayer_output" or "affine"; see `Residual`.
        dropout: float in [0, 1). Rate on each sublayer's output and inside the feed-forward sublayer.
        output_init_scale: float. Factor on the standard deviation of the sublayers' initial output
            projections.
        **kwargs: `name` and `dtype` of the Keras layer.
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
        self.feed_forward = self.feed_forward_residual = None
        if not self.mixer.contains_feed_forward:
            self.feed_forward = FeedForward(
                intermediate_dim, dropout, output_init_scale, dtype=dtype, name="feed_forward"
            )
            self.feed_forward_residual = Residual(
                residual_form, dropout, dtype=dtype, name="feed_forward_residual"
            )

    @property
    def mixer(self):
        """The layer's `TokenMixer`."""
        return self.mixing.mixer if isinstance(self.mixing, GLUConvBlock) else self.mixing

    def build(self, input_shape):
        layers = [self.mixing, self.mixing_residual, self.feed_forward, self.feed_forward_residual]
        for layer in filter(None, layers):
            layer.build(input_shape)

    def mix(self, x, masks, training):
        return self.feed(self.mix_tokens(x, masks, training), training)

    def mix_tokens(self, x, masks, training):
        """Applies the mixing sublayer in its residual connection: [B,T,D] -> [B,T,D]."""
        x, y = self.mixing_residual.enter(x)
        y = self.mixing(y, **masks._asdict(), training=training)
        return self.mixing_residual.leave(x, y, training)

    def feed(self, x, training=False):
        """Applies the feed-forward sublayer, if any, in its residual connection: [B,T,D] -> [B,T,D]."""
        if self.feed_forward is None:
            return x
        x, y = self.feed_forward_residual.enter(x)
        y = self.feed_forward(y, training=training)
        return self.feed_forward_residual.leave(x, y, training)

    def receptive_field(self, length):
        """Returns the number of positions that one output position can see."""
        return self.mixer.receptive_field(length)

    def cost(self, length):
        """Like `TokenMixer.cost`, for one example of `length` tokens."""
        dim = self.mixer_config["hidden_dim"]
        costs = [self.mixing.cost(length), self.mixing_residual.cost(dim)]
        if self.feed_forward is not None:
            costs += [self.feed_forward.cost(length, dim), self.feed_forward_residual.cost(dim)]
        return add_costs(costs)

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
class Encoder(MaskedLayer, Stack):
    """A stack of `EncoderLayer`s that can merge neighbouring positions between layers.

    Merging is for long texts, as in CoAtNet: before a layer with pool size P > 1, each run of P positions
    becomes one, the maximum over its tokens. T positions become T / P, rounded up; `output_mask` returns the
    padding mask of the output. Packed rows cannot be merged.

    Args:
        mixers: list of dicts, the arguments of `build_mixer` for each layer. If empty, x is returned
            unchanged.
        intermediate_dim, residual_form, dropout: as in `EncoderLayer`.
        pool_sizes: list of ints >= 1, one per layer. Defaults to all 1, no merging.
        **kwargs: `name` and `dtype` of the Keras layer.

    Raises:
        ValueError: if `pool_sizes` has the wrong length or a value below 1; when called, if positions are
            merged and `segment_ids`, `prefix_mask` or `right_to_left` is given.

    Attributes:
        shared_function: a tf.function of x and `padding_mask` inside `traced_once`, else None.

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
    shared_function = None

    def __init__(self, mixers, intermediate_dim, residual_form="pre", dropout=0.0, pool_sizes=None, **kwargs):
        arguments = {"intermediate_dim": intermediate_dim, "residual_form": residual_form, "dropout": dropout}
        super().__init__(mixers, arguments, **kwargs)
        self.pool_sizes = [1] * len(mixers) if pool_sizes is None else list(pool_sizes)
        if len(self.pool_sizes) != len(mixers):
            raise ValueError(
                f"`pool_sizes` must have one entry per layer, that is {len(mixers)}. Received: {pool_sizes}"
            )
        for size in self.pool_sizes:
            require_count("pool_sizes", size)
        self.pool_factor = math.prod(self.pool_sizes)
        self._mask_pooling = MaskPooling(self.pool_factor, name="mask_pooling")

    def mix(self, x, masks, training):
        """Like `call`, with `Masks`: x [B,T,D] -> [B,T',D], with T' = T unless positions are merged.

        Raises:
            ValueError: if positions are merged that must not see each other: of packed rows, or of one
                direction.
        """
        for name, value in masks._replace(padding_mask=None)._asdict().items():
            unset = Masks._field_defaults[name]  # None or False
            if value is not unset and self.pool_factor > 1:
                raise ValueError(
                    f"`{name}` must be {unset}: pool_sizes={self.pool_sizes} merges positions that must not "
                    f"see each other. Received: {name}={value}"
                )
        if not self.layers:
            return x
        if self.shared_function is not None and self._hides_only_pads(masks):
            return self.shared_function(x, masks.padding_mask)
        return self._mixed(x, masks, training)

    def _mixed(self, x, masks, training):
        """Like `mix`, for at least one layer."""
        x = self.dropout(x, training=training)
        if self._takes_images(masks):
            x, mask = tf.expand_dims(x, 1), tf.expand_dims(masks.padding_mask, 1)  # [B,1,T,D], [B,1,T]
            for layer in self.layers:
                x = layer(x, padding_mask=mask, training=training)
            return self.finish(tf.squeeze(x, 1), training)
        for layer, size in zip(self.layers, self.pool_sizes, strict=True):
            if size > 1:
                x, pooled = pool_tokens(x, masks.padding_mask, size)
                masks = masks._replace(padding_mask=pooled)
            x = layer(x, **masks._asdict(), training=training)
        return self.finish(x, training)

    @contextlib.contextmanager
    def traced_once(self):
        """Makes all functions traced inside call one shared function for the layers, per input shape.

        An exported model with several signatures then stores the layers once, not once per signature.
        """

        def layers(x, padding_mask):
            return self._mixed(x, Masks(padding_mask), training=False)

        self.shared_function = tf.function(layers, autograph=False)
        try:
            yield
        finally:
            self.shared_function = None

    def _takes_images(self, masks):
        """Whether all layers take a row as an image of height 1, the layout of TFLite's convolutions.

        With this layout throughout, rows need not be copied around each convolution. It is only used in
        traced functions: run eagerly, TensorFlow's oneDNN operations write past the end of such an image.
        """
        is_flat = not tf.executing_eagerly() and self.pool_factor == 1 and self._hides_only_pads(masks)
        return is_flat and all(layer.mixer.takes_images for layer in self.layers)

    @staticmethod
    def _hides_only_pads(masks):
        return masks.padding_mask is not None and masks == Masks(masks.padding_mask)

    def output_mask(self, padding_mask):
        """Returns the padding mask of the output: bool [B,T] -> [B,T'], or None -> None."""
        if padding_mask is None or self.pool_factor == 1:
            return padding_mask
        return self._mask_pooling(padding_mask)

    def output_length(self, length):
        """Returns T' for T = `length`."""
        return math.ceil(length / self.pool_factor)

    @property
    def strides(self):
        return list(itertools.accumulate(self.pool_sizes, operator.mul))

    def _lengths(self, length):
        """Returns for each layer how many input positions each of its positions covers, and its length."""
        return [(stride, math.ceil(length / stride)) for stride in self.strides]

    def cost(self, length):
        """Like `TokenMixer.cost`, for one example of `length` input tokens."""
        lengths = [own for _, own in self._lengths(length)]
        return self.total_cost([layer.cost(own) for layer, own in zip(self.layers, lengths, strict=True)])

    def receptive_field(self, length):
        """Returns how many input positions one output position can see in a text of `length` tokens."""
        reach, earlier = 1, 1
        for layer, (stride, own) in zip(self.layers, self._lengths(length), strict=True):
            reach += stride - earlier + (layer.receptive_field(own) - 1) * stride
            earlier = stride
        return min(reach, length)

    def get_config(self):
        return {**super().get_config(), "pool_sizes": self.pool_sizes}
