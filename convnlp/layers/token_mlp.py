"""A multilayer perceptron over the positions, the same for all channels."""

import keras
import tensorflow as tf


class TokenMLP(keras.layers.Layer):
    """y = W2 gelu(W1 x + b1) + b2 for every channel, where x is a column of T <= L positions.

    W1 is [S,L], W2 [L,S], b1 [S], b2 [L]; a shorter text uses W1[:, :T], W2[:T] and b2[:T]. x must be zero at
    pads: then they add nothing to the S hidden values, and their number does not matter.

    Args:
        max_sequence_length: int. L.
        hidden_size: int. S.
        **kwargs: `name` and `dtype` of the Keras layer.

    Example:
    >>> TokenMLP(max_sequence_length=9, hidden_size=4)(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    """

    def __init__(self, max_sequence_length, hidden_size, **kwargs):
        super().__init__(**kwargs)
        self.max_sequence_length = max_sequence_length
        self.hidden_size = hidden_size

    def build(self, *_):
        length, size = self.max_sequence_length, self.hidden_size
        for name, shape in (("kernel_1", (size, length)), ("kernel_2", (length, size))):
            # W maps from its second axis, but Keras takes the first one for the fan-in.
            initializer = keras.initializers.VarianceScaling(1.0, mode="fan_out")
            setattr(self, name, self.add_weight(name=name, shape=shape, initializer=initializer))
        self.bias_1 = self.add_weight(name="bias_1", shape=(size,), initializer="zeros")
        self.bias_2 = self.add_weight(name="bias_2", shape=(length,), initializer="zeros")

    def call(self, x):
        """Maps x [B,T,D] to [B,T,D]."""
        length = tf.shape(x)[1]
        hidden = tf.matmul(self.kernel_1[:, :length], x) + tf.expand_dims(self.bias_1, 1)  # [B,S,D]
        hidden = keras.activations.gelu(hidden, approximate=False)
        return tf.matmul(self.kernel_2[:length], hidden) + tf.expand_dims(self.bias_2[:length], 1)  # [B,T,D]

    def cost(self, length, dim):
        """Like `TokenMixer.cost`, for a text of `length` with `dim` channels."""
        size, longest = self.hidden_size, self.max_sequence_length
        return {
            "parameters": 2 * size * longest + size + longest,
            "multiply_adds": 2 * length * size * dim,
            "state_elements": 0,
        }
