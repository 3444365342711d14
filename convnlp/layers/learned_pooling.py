"""Pools the tokens of a text into one vector by learned attention."""

import keras
import tensorflow as tf

from convnlp import kernels
from convnlp.layers.checks import require_count, require_heads
from convnlp.layers.feed_forward import FeedForward
from convnlp.layers.projection import layer_norm, projection

_FIRST_SCALE = 0.1  # of LayerScale, for stacks as shallow as this one


@keras.saving.register_keras_serializable(package="convnlp")
class AttentionPooling(keras.layers.Layer):
    """A weighted mean of the tokens of a text; each token's score depends on that token alone.

        y = sum_t softmax_t(a . tanh(W h_t)) h_t                W: [D,D], a: [D]

    Source: Su Jianlin, 2018, DGCNN for reading comprehension, https://spaces.ac.cn/archives/5409: how it
    encodes a question.

    Masking: pads do not count, whatever their values; a row without tokens gives zeros.
    Cost: D^2 + D parameters, T (D^2 + 2 D) multiply-adds.

    Args:
        **kwargs: `name` of the Keras layer, which computes in float32.

    Example:
    >>> AttentionPooling()(tf.ones([2, 5, 8]), tf.ones([2, 5], tf.bool)).shape
    TensorShape([2, 8])
    """

    def __init__(self, **kwargs):
        super().__init__(**{"dtype": "float32", **kwargs})

    def build(self, x_shape, padding_mask_shape=None):
        dim = x_shape[-1]
        self.hidden = projection(dim, dtype=self.dtype_policy, name="hidden")
        self.score = projection(1, dtype=self.dtype_policy, name="score")
        self.hidden.build((None, None, dim))
        self.score.build((None, None, dim))

    def call(self, x, padding_mask):
        """Pools x [B,T,D] with padding_mask bool [B,T], True = token, to float32 [B,D]."""
        x = kernels.zero_pads(tf.cast(x, tf.float32), padding_mask)
        scores = tf.squeeze(self.score(tf.tanh(self.hidden(x))), 2)  # [B,T]
        weights = kernels.masked_softmax(scores, padding_mask)
        return tf.reduce_sum(tf.expand_dims(weights, 2) * x, axis=1)

    def compute_output_shape(self, x_shape, padding_mask_shape=None):
        return (x_shape[0], x_shape[2])


@keras.saving.register_keras_serializable(package="convnlp")
class ClassAttention(keras.layers.Layer):
    """A learned vector that attends to the tokens of a text layer by layer; the tokens do not change.

        c <- c + s_1 * concat_h(softmax(q K^T) V) W_O        q = LN_1(c) W_Q; K, V = LN_1([c; X]) W_K, W_V
        c <- c + s_2 * relu(LN_2(c) W_1) W_2
        y  = LN_3(c)

    The first two lines are one layer; there are N. c starts as a learned vector, the same for all texts; s_1
    and s_2 hold one number per channel. The usual factor 1 / sqrt(D / H) is part of the initial W_Q.

    Source: Touvron et al., 2021, "Going deeper with Image Transformers", section 3 (?),
    https://arxiv.org/abs/2103.17239, adopted in their ResMLP, https://arxiv.org/abs/2105.03404.
    Departs from it: ReLU instead of GELU, and no biases, as in the skeleton. Instead of attention, ResMLP has
    a linear map over the patches, whose number is the same for all images; texts differ in length.

    Masking: pads do not count, whatever their values; in a row without tokens, c attends only to itself.
    Cost: N (4 D^2 + 2 D F + 6 D) + 3 D parameters.

    Args:
        num_heads: int. H; divides D.
        intermediate_dim: int. F, the inner width.
        num_layers: int. N. Defaults to `2`.
        **kwargs: `name` of the Keras layer, which computes in float32.

    Raises:
        ValueError: if a size is not a positive int, or, when built, if `num_heads` does not divide D.

    Example:
    >>> layer = ClassAttention(num_heads=2, intermediate_dim=16)
    >>> layer(tf.ones([2, 5, 8]), tf.ones([2, 5], tf.bool)).shape
    TensorShape([2, 8])
    """

    def __init__(self, num_heads, intermediate_dim, num_layers=2, **kwargs):
        super().__init__(**{"dtype": "float32", **kwargs})
        require_count("num_heads", num_heads)
        require_count("intermediate_dim", intermediate_dim)
        require_count("num_layers", num_layers)
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.num_layers = num_layers

    def build(self, x_shape, padding_mask_shape=None):
        dim = x_shape[-1]
        require_heads(dim, self.num_heads)
        normal = keras.initializers.TruncatedNormal(stddev=0.02)
        self.class_vector = self.add_weight(name="class_vector", shape=(dim,), initializer=normal)
        self.layers = [
            _ClassAttentionLayer(
                self.num_heads, self.intermediate_dim, dtype=self.dtype_policy, name=f"layer_{i}"
            )
            for i in range(self.num_layers)
        ]
        self.norm = layer_norm(dtype=self.dtype_policy, name="norm")
        for layer in (*self.layers, self.norm):
            layer.build((None, None, dim))

    def call(self, x, padding_mask):
        """Pools x [B,T,D] with padding_mask bool [B,T], True = token, to float32 [B,D]."""
        x = kernels.zero_pads(tf.cast(x, tf.float32), padding_mask)
        vector = tf.reshape(self.class_vector, [1, 1, -1])
        vector = tf.tile(vector, [tf.shape(x)[0], 1, 1])  # [B,1,D]
        itself = tf.ones_like(padding_mask[:, :1])
        visible = tf.concat([itself, padding_mask], axis=1)  # [B,1+T]
        for layer in self.layers:
            vector = layer(vector, x, visible)
        return tf.squeeze(self.norm(vector), 1)

    def compute_output_shape(self, x_shape, padding_mask_shape=None):
        return (x_shape[0], x_shape[2])

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "num_layers": self.num_layers,
        }


class _ClassAttentionLayer(keras.layers.Layer):
    """One of the N layers: vector c [B,1,D], x [B,T,D] and visible bool [B,1+T] -> c [B,1,D]."""

    def __init__(self, num_heads, intermediate_dim, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.attention_norm = layer_norm(dtype=self.dtype_policy, name="attention_norm")
        self.feed_forward_norm = layer_norm(dtype=self.dtype_policy, name="feed_forward_norm")
        self.feed_forward = FeedForward(intermediate_dim, dtype=self.dtype_policy, name="feed_forward")

    def build(self, x_shape, *_):
        dim = x_shape[-1]
        dtype, scale = self.dtype_policy, (dim // self.num_heads) ** -0.5
        self.query = projection(dim, scale, dtype=dtype, name="query")
        self.key = projection(dim, dtype=dtype, name="key")
        self.value = projection(dim, dtype=dtype, name="value")
        self.output_projection = projection(dim, dtype=dtype, name="output")
        first = keras.initializers.Constant(_FIRST_SCALE)
        self.attention_scale = self.add_weight(name="attention_scale", shape=(dim,), initializer=first)
        self.feed_forward_scale = self.add_weight(name="feed_forward_scale", shape=(dim,), initializer=first)
        for layer in (
            self.attention_norm,
            self.feed_forward_norm,
            self.feed_forward,
            self.query,
            self.key,
            self.value,
            self.output_projection,
        ):
            layer.build(x_shape)

    def call(self, vector, x, visible):
        both = self.attention_norm(tf.concat([vector, x], axis=1))  # [B,1+T,D]
        queries = kernels.split_heads(self.query(both[:, :1]), self.num_heads)  # [B,1,H,D/H]
        keys, values = (
            kernels.split_heads(layer(both), self.num_heads) for layer in (self.key, self.value)
        )  # [B,1+T,H,D/H] each
        scores = tf.einsum("bqhd,bkhd->bhqk", queries, keys)  # [B,H,1,1+T]
        weights = kernels.masked_softmax(scores, tf.expand_dims(tf.expand_dims(visible, 1), 1))
        mixed = kernels.merge_heads(tf.einsum("bhqk,bkhd->bqhd", weights, values))  # [B,1,D]
        vector += self.attention_scale * self.output_projection(mixed)
        return vector + self.feed_forward_scale * self.feed_forward(self.feed_forward_norm(vector))
