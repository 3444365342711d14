"""DGCNN's way to tell a context what is asked: a summary of the question beside each context token."""

import keras
import tensorflow as tf

from convnlp import kernels
from convnlp.layers.mixers.gated_dilated_conv import GatedDilatedConv

KERNEL_SIZE, DILATION_RATES = 3, (1, 2, 5)


@keras.saving.register_keras_serializable(package="convnlp")
class QuestionSummary(keras.layers.Layer):
    """Relates the tokens of a context to a question, for encoders that cannot relate the two.

        a = softmax_j(v . tanh(h_j W_a))                   over the question's tokens j and its end token
        q = sum_j a_j h_j
        u_t = [h_t ; q ; h_t * q ; m_t] W_u + b            m_t = 1 if token t also occurs in the question
        y = h + Conv_5(Conv_2(Conv_1(u)))                  `GatedDilatedConv`s of 3 taps at these rates

    h is the encoder's output for a row `question </s> context </s>`. The convolutions see only the context.

    Source: Su Jianlin, 2018, DGCNN for reading comprehension, https://spaces.ac.cn/archives/5409.
    Departs from it: one encoder reads question and context in one row; the product h_t * q, a diagonal
    bilinear form of the two; only m_t of its features of shared words, on tokens; fewer convolutions, with a
    residual connection around them.

    Masking: the convolutions leave out pads and the question, the sum over the question leaves out pads.
    Cost: 22 D^2 + O(D) parameters, about as many multiply-adds per token, and T^2 comparisons of ids.

    Args:
        hidden_dim: int. D.
        end_token_id: int. The id of `</s>`.
        **kwargs: `name` of the Keras layer, which computes in float32.

    Example:
    >>> layer, ids = QuestionSummary(hidden_dim=8, end_token_id=1), tf.constant([[7, 1, 5, 7, 1, 0]])
    >>> layer(tf.ones([1, 6, 8]), ids, tf.constant([[1, 1, 2, 2, 2, 0]])).shape
    TensorShape([1, 6, 8])
    """

    def __init__(self, hidden_dim, end_token_id, **kwargs):
        super().__init__(**{"dtype": "float32", **kwargs})
        self.hidden_dim, self.end_token_id = hidden_dim, end_token_id
        self.attention = keras.layers.Dense(
            hidden_dim, "tanh", use_bias=False, dtype="float32", name="attention"
        )
        self.score = keras.layers.Dense(1, use_bias=False, dtype="float32", name="score")
        self.join = keras.layers.Dense(hidden_dim, dtype="float32", name="join")
        self.convs = [
            GatedDilatedConv(hidden_dim, KERNEL_SIZE, rate, dtype="float32", name=f"conv_{rate}")
            for rate in DILATION_RATES
        ]

    def build(self, x_shape, token_ids_shape=None, segment_ids_shape=None):
        shape = (None, None, self.hidden_dim)
        self.attention.build(shape)
        self.score.build(shape)
        self.join.build((None, None, 3 * self.hidden_dim + 1))
        for conv in self.convs:
            conv.build(shape)

    def call(self, x, token_ids, segment_ids, training=False):
        """Maps x [B,T,D] to float32 [B,T,D].

        Args:
            x: float tensor [B,T,D].
            token_ids: int tensor [B,T].
            segment_ids: int tensor [B,T], from `PairSegments`.
            training: bool. Whether dropout is active.
        """
        x = kernels.zero_pads(tf.cast(x, tf.float32), segment_ids > 0)
        is_question = tf.equal(segment_ids, 1)
        weights = self.weights_of(x, is_question)  # [B,T]
        summary = tf.reduce_sum(x * tf.expand_dims(weights, 2), axis=1, keepdims=True)  # [B,1,D]
        is_asked = tf.cast(self.is_asked(token_ids, is_question), tf.float32)
        parts = [x, summary + tf.zeros_like(x), x * summary, tf.expand_dims(is_asked, 2)]
        joined = self.join(tf.concat(parts, axis=-1))  # [B,T,3D+1] -> [B,T,D]
        for conv in self.convs:
            joined = conv(joined, padding_mask=tf.equal(segment_ids, 2), training=training)
        return x + joined

    def weights_of(self, x, is_question):
        """Returns the weight of each token in the summary: [B,T,D] and bool [B,T] -> [B,T]."""
        scores = tf.squeeze(self.score(self.attention(x)), 2)
        scores, is_question = (tf.expand_dims(values, 1) for values in (scores, is_question))  # [B,1,T]
        return tf.squeeze(kernels.masked_softmax(scores, is_question), 1)

    def is_asked(self, token_ids, is_question):
        """Returns which tokens occur in the question: int [B,T] and bool [B,T] -> bool [B,T]."""
        words = is_question & tf.not_equal(token_ids, self.end_token_id)
        same = tf.equal(tf.expand_dims(token_ids, 2), tf.expand_dims(token_ids, 1))  # [B,T,T]
        return tf.reduce_any(same & tf.expand_dims(words, 1), axis=2)

    def compute_output_spec(self, x, token_ids, segment_ids, training=False):
        return keras.KerasTensor(x.shape, "float32")

    def get_config(self):
        return {
            **super().get_config(),
            "hidden_dim": self.hidden_dim,
            "end_token_id": self.end_token_id,
        }
