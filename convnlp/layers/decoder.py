"""The causal decoder with cross-attention, for whole sequences and step by step."""

import keras
from keras import ops

from convnlp.layers.costs import add_costs
from convnlp.layers.cross_attention import CrossAttention
from convnlp.layers.encoder import EncoderLayer
from convnlp.layers.masks import Masks
from convnlp.layers.residual import Affine, Residual
from convnlp.layers.stack import Stack
from convnlp.layers.states import nest, unnest


@keras.saving.register_keras_serializable(package="convnlp")
class DecoderLayer(EncoderLayer):
    """Causal token mixing, then cross-attention, then feed-forward, each in a residual connection.

    Source: Tay et al., 2021, section 3.2, https://arxiv.org/abs/2105.03322, and the layer list of its release
    (convolution, attention, feed-forward).

    Args:
        mixer: dict, the arguments of `build_mixer` with `causal=True`.
        num_heads: int. Heads of the cross-attention.
        cross_attention_init: "independent" or "tied"; see `CrossAttention`.
        intermediate_dim, residual_form, dropout, output_init_scale: as in `EncoderLayer`.
    """

    def __init__(
        self,
        mixer,
        intermediate_dim,
        num_heads,
        cross_attention_init="independent",
        residual_form="pre",
        dropout=0.0,
        output_init_scale=1.0,
        **kwargs,
    ):
        super().__init__(mixer, intermediate_dim, residual_form, dropout, output_init_scale, **kwargs)
        self.num_heads, self.cross_attention_init = num_heads, cross_attention_init
        self.cross_attention = CrossAttention(
            mixer["hidden_dim"],
            num_heads,
            dropout,
            cross_attention_init,
            output_init_scale,
            dtype=self.dtype_policy,
            name="cross_attention",
        )
        self.cross_residual = Residual(residual_form, dropout, dtype=self.dtype_policy, name="cross_residual")

    def build(self, input_shape):
        super().build(input_shape)
        self.cross_attention.build(input_shape)
        self.cross_residual.build(input_shape)

    def _attend_and_feed(self, x, memory, allowed, training):
        x, y = self.cross_residual.enter(x)
        y = self.cross_attention.attend(y, memory, allowed, training)
        return self.feed(self.cross_residual.leave(x, y, training), training)

    def call(self, x, encoder_output, allowed=None, padding_mask=None, segment_ids=None, training=False):
        """Decodes x [B,T,D] over encoder_output [B,S,D] -> [B,T,D].

        `allowed` is bool [B,1 or T,S]; the masks are those of `TokenMixer.call`.
        """
        x = self.mix_tokens(x, Masks(padding_mask, segment_ids), training)
        memory = self.cross_attention.keys_and_values(encoder_output)
        return self._attend_and_feed(x, memory, allowed, training)

    def init_state(self, encoder_output, max_length):
        """Returns the flat state before the first token: the mixer's, and the encoder's keys and values."""
        state = self.mixing.init_state(ops.shape(encoder_output)[0], max_length)
        memory = self.cross_attention.keys_and_values(encoder_output)
        return {**nest("mixing", state), **nest("cross", memory)}

    def step(self, x, state, index, allowed=None):
        """Runs the layer on a chunk of positions from `index` on: x [B,C,D] -> ([B,C,D], state)."""
        mixing_state, memory = unnest("mixing", state), unnest("cross", state)
        x, y = self.mixing_residual.enter(ops.cast(x, self.compute_dtype))  # as Keras does before `call`
        y, mixing_state = self.mixing.step(y, mixing_state, index)
        x = self._attend_and_feed(self.mixing_residual.leave(x, y), memory, allowed, training=False)
        return x, {**state, **nest("mixing", mixing_state)}

    def cost(self, length, encoder_length=0):
        """Like `TokenMixer.cost`, for `length` decoder tokens over `encoder_length` encoder tokens."""
        cross = self.cross_attention.cost(length, encoder_length)
        norm = self.cross_residual.cost(self.mixer_config["hidden_dim"])
        return add_costs([super().cost(length), cross, norm])

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "cross_attention_init": self.cross_attention_init,
        }


@keras.saving.register_keras_serializable(package="convnlp")
class Decoder(Stack):
    """A stack of `DecoderLayer`s.

    Args:
        mixers: list of dicts, the arguments of `build_mixer` for each layer, with `causal=True`.
        num_heads, cross_attention_init: as in `DecoderLayer`.
        intermediate_dim, residual_form, dropout: as in `EncoderLayer`.
    """

    layer_class = DecoderLayer
    sublayers_per_layer = 3

    def __init__(
        self,
        mixers,
        intermediate_dim,
        num_heads,
        cross_attention_init="independent",
        residual_form="pre",
        dropout=0.0,
        **kwargs,
    ):
        arguments = {
            "intermediate_dim": intermediate_dim,
            "num_heads": num_heads,
            "cross_attention_init": cross_attention_init,
            "residual_form": residual_form,
            "dropout": dropout,
        }
        super().__init__(mixers, arguments, **kwargs)

    def expect_rows_of_length(self, length):
        """Makes the outputs of an untrained decoder smaller, for an embedding whose rows have this length.

        Their products, the logits, then have the variance that rows of unit length would give them.
        """
        norm, last = self.final_norm, self.layers[-1]
        if norm is None:
            norm = (last.feed_forward_residual or last.cross_residual).norm
        if isinstance(norm, Affine):  # what it scales is a sum of such rows too
            norm.scale.assign(norm.scale / length**2)
        else:
            norm.gamma.assign(norm.gamma / length)

    def call(self, x, encoder_output, allowed=None, padding_mask=None, segment_ids=None, training=False):
        """Decodes x [B,T,D] over encoder_output [B,S,D] -> [B,T,D].

        `allowed` is bool [B,1 or T,S]; the masks are those of `TokenMixer.call`.
        """
        x = self.dropout(x, training=training)
        for layer in self.layers:
            x = layer(
                x,
                encoder_output,
                allowed=allowed,
                padding_mask=padding_mask,
                segment_ids=segment_ids,
                training=training,
            )
        return self.finish(x, training)

    def init_state(self, encoder_output, max_length):
        """Returns the flat state of all layers: name -> tensor with the batch on axis 0."""
        state = {}
        for i, layer in enumerate(self.layers):
            state |= nest(f"layer_{i}", layer.init_state(encoder_output, max_length))
        return state

    def step(self, x, state, index, allowed=None):
        """Runs the stack on a chunk of positions from `index` on: x [B,C,D] -> ([B,C,D], state)."""
        state = dict(state)
        for i, layer in enumerate(self.layers):
            x, layer_state = layer.step(x, unnest(f"layer_{i}", state), index, allowed)
            state |= nest(f"layer_{i}", layer_state)
        return self.finish(x), state
