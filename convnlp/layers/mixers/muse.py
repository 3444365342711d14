"""MUSE: attention, convolutions of several sizes and a feed-forward network, side by side."""

import keras
import tensorflow as tf

from convnlp.kernels import zero_pads
from convnlp.layers.checks import counts, require_count
from convnlp.layers.costs import add_costs
from convnlp.layers.feed_forward import FeedForward
from convnlp.layers.mixers.dynamic_conv import DynamicConv
from convnlp.layers.mixers.self_attention import SelfAttention
from convnlp.layers.projection import projection
from convnlp.layers.states import nest, unnest
from convnlp.layers.token_mixer import TokenMixer


@keras.saving.register_keras_serializable(package="convnlp")
class Muse(TokenMixer):
    """Three views of the input in parallel: global, local at several scales, and position by position.

        Y = Attention(X) + (sum_k softmax(a)_k DynamicConv_k(X W_V)) W_C + FFN(X)

    W_V is the attention's value projection, so that both mix the same vectors. The gate a starts at equal
    shares. The layer around it has no feed-forward sublayer. Without kernel sizes, there is no convolution:
    this is the paper's MUSE-simple.

    Source: Zhao et al., 2019, "MUSE: Parallel Multi-Scale Attention for Sequence to Sequence Learning",
    section 2, https://arxiv.org/abs/1911.09483.
    Departs from it: dynamic convolutions, as in the authors' code, where the text has static ones with a
    softmax; attention and convolution have one output projection each, which equals the code's single
    projection of both concatenated; attention has T5's relative position bias.

    Masking: pads are masked as keys, and zero as inputs of the convolutions. Causality: yes. Packing: other
    texts are masked.
    Cost: with K the sum of the kernel sizes and F the inner width, 5 D^2 + 2 D F + D H K + 32 H parameters
    and one for each size; T (5 D^2 + 2 D F + K D (1 + H)) + 2 T^2 D multiply-adds; a state of 2 T D elements
    and (k - 1) D for each size k.

    Args:
        hidden_dim: int. Width D.
        num_heads: int. Number H of heads, and of filters at each position; divides D.
        intermediate_dim: int. Inner width F of the feed-forward network.
        kernel_sizes: int or sequence of ints >= 1, the sizes k; empty for none. Defaults to `(3, 15)`.
        kernel_dropout: float in [0, 1). Share of the taps dropped in training. Defaults to `0.0`.
        dropout: float in [0, 1). Share of the attention weights and inner activations dropped in training.
            Defaults to `0.0`.
        causal: bool. Whether an output sees only its own and earlier positions. Defaults to `False`.
        output_init_scale: float. Factor on the standard deviation of the initial output projections. Defaults
            to `1.0`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, `num_heads` does not divide `hidden_dim`, or a dropout
            rate is not in [0, 1).

    Example:
    >>> mixer = Muse(hidden_dim=8, num_heads=2, intermediate_dim=16, kernel_sizes=(3, 5))
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> mixer.cost(5)["parameters"]
    770
    """

    name = "muse"
    supports_prefix = True
    supports_right_to_left = True
    gated = False
    contains_feed_forward = True

    def __init__(
        self,
        hidden_dim,
        num_heads,
        intermediate_dim,
        kernel_sizes=(3, 15),
        kernel_dropout=0.0,
        dropout=0.0,
        causal=False,
        output_init_scale=1.0,
        **kwargs,
    ):
        super().__init__(hidden_dim, causal, **kwargs)
        require_count("intermediate_dim", intermediate_dim)
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.kernel_sizes = tuple(counts("kernel_sizes", kernel_sizes))
        self.kernel_dropout = kernel_dropout
        self.dropout = dropout
        self.output_init_scale = output_init_scale
        dtype = self.dtype_policy
        self.attention = SelfAttention(
            hidden_dim, num_heads, dropout, causal, output_init_scale, dtype=dtype, name="attention"
        )
        self.convolutions = [
            DynamicConv(
                hidden_dim,
                num_heads,
                size,
                kernel_dropout=kernel_dropout,
                causal=causal,
                dtype=dtype,
                name=f"convolution_{i}",
            )
            for i, size in enumerate(self.kernel_sizes)
        ]
        self.conv_projection = None
        if self.kernel_sizes:
            self.conv_projection = projection(hidden_dim, output_init_scale, dtype=dtype, name="conv_output")
        self.feed_forward = FeedForward(
            intermediate_dim, dropout, output_init_scale, dtype=dtype, name="feed_forward"
        )

    def build(self, input_shape):
        super().build(input_shape)
        for layer in (self.attention, *self.convolutions, self.feed_forward):
            layer.build(input_shape)
        if not self.kernel_sizes:
            return
        self.conv_projection.build(input_shape)
        self.gate = self.add_weight(
            name="gate",
            shape=(len(self.kernel_sizes),),
            initializer="zeros",
            autocast=False,  # The softmax reads it in float32.
        )

    def _join(self, x, attended, convolved, training=False):
        """Returns the sum of the three views [B,T,D].

        Args:
            x: tensor [B,T,D].
            attended: tensor [B,T,D], the attention's output.
            convolved: list of tensors [B,T,D], the convolutions' outputs.
            training: bool. Whether dropout is active.
        """
        if convolved:
            shares = tf.unstack(tf.cast(tf.nn.softmax(self.gate), self.compute_dtype))
            local = tf.add_n([share * y for share, y in zip(shares, convolved, strict=True)])  # [B,T,D]
            attended += self.conv_projection(local)
        return attended + self.feed_forward(x, training=training)

    @property
    def exit_projections(self):
        exits = self.attention.exit_projections + self.feed_forward.exit_projections
        return exits if self.conv_projection is None else (*exits, self.conv_projection)

    def mix(self, x, masks, training):
        x = zero_pads(x, masks.padding_mask)
        values = self.attention.value(x)  # [B,T,D], 0 at pads
        attended = self.attention.mix_values(x, values, masks, training)
        masks = masks._replace(padding_mask=None)
        convolved = [conv.mix(values, masks, training) for conv in self.convolutions]
        return self._join(x, attended, convolved, training)

    def empty_state(self, batch_size, max_length):
        state = {}
        for part in (self.attention, *self.convolutions):
            state |= nest(part.name, part.empty_state(batch_size, max_length))
        return state

    def advance(self, x_chunk, state, index):
        values = self.attention.value(x_chunk)  # [B,C,D]
        cache = unnest("attention", state)
        attended, cache = self.attention.advance_values(x_chunk, values, cache, index)
        state, convolved = {**state, **nest("attention", cache)}, []
        for conv in self.convolutions:
            y, window = conv.advance(values, unnest(conv.name, state), index)
            convolved.append(y)
            state |= nest(conv.name, window)
        return self._join(x_chunk, attended, convolved), state

    def cost(self, length):
        projected = self.hidden_dim**2
        costs = [self.attention.cost(length), self.feed_forward.cost(length, self.hidden_dim)]
        costs += [conv.cost(length) for conv in self.convolutions]
        if self.kernel_sizes:
            costs += [
                {"parameters": projected, "multiply_adds": length * projected, "state_elements": 0},
                {"parameters": len(self.kernel_sizes), "multiply_adds": 0, "state_elements": 0},
            ]
        return add_costs(costs)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "kernel_sizes": list(self.kernel_sizes),
            "kernel_dropout": self.kernel_dropout,
            "dropout": self.dropout,
            "output_init_scale": self.output_init_scale,
        }
