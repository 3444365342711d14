"""A learned weight for every pair of positions, the same for all channels."""

import keras
import tensorflow as tf

from convnlp.kernels import same_segment
from convnlp.layers.cache import write
from convnlp.layers.masks import positions_in_segments


class PositionMatrix(keras.layers.Layer):
    """y[i] = sum_j W[i, j] x[j] + b[i], over the positions of a text.

    Dense, W is [L,L] and b [L]; a text of T <= L positions uses W[:T, :T]. Toeplitz, W[i, j] = w[j - i] with
    |j - i| < L and b is one number, so that a text may be of any length. If causal, W[i, j] = 0 for j > i.

    Pads have to be zero in x. Packing: each text counts its positions from its own start.

    Args:
        max_sequence_length: int. L.
        causal: bool.
        toeplitz: bool. Defaults to `False`.
        kernel_initializer: of W or w. Defaults to Glorot's.
        bias_initializer: of b. Defaults to `"zeros"`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Example:
    >>> mix = PositionMatrix(max_sequence_length=9, causal=True)
    >>> mix(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    """

    def __init__(
        self,
        max_sequence_length,
        causal,
        toeplitz=False,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.max_sequence_length = max_sequence_length
        self.causal = causal
        self.toeplitz = toeplitz
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, *_):
        length = self.max_sequence_length
        # Toeplitz: the offsets j - i from 1 - L to 0 if causal, else to L - 1.
        self._num_offsets = length if self.causal else 2 * length - 1
        shape = (self._num_offsets,) if self.toeplitz else (length, length)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=self.kernel_initializer)
        bias_shape = () if self.toeplitz else (length,)
        self.bias = self.add_weight(name="bias", shape=bias_shape, initializer=self.bias_initializer)

    def call(self, x, segment_ids=None):
        """X [B,T,D], segment_ids int32 [B,T] or None -> [B,T,D]."""
        length = tf.shape(x)[1]
        if segment_ids is None:
            return tf.matmul(self._rows(0, length, length), x) + self._biases(0, length)  # [B,T,D]
        if self.toeplitz:
            matrix = tf.expand_dims(self._rows(0, length, length), 0)  # [1,T,T]; offsets are what they were
            bias = self._biases(0, length)
        else:
            positions = positions_in_segments(segment_ids)  # [B,T]
            matrix = tf.gather(self._rows(0, length, length), positions)  # [B,T,T]
            matrix = tf.gather(matrix, positions, axis=2, batch_dims=1)  # [B,T,T]
            bias = tf.gather(self._biases(0, length), positions)  # [B,T,1]
        matrix *= tf.cast(same_segment(segment_ids), matrix.dtype)
        return tf.matmul(matrix, x) + bias  # [B,T,D]

    def empty_cache(self, batch_size, max_length, dim):
        """Zeros [B,max_length,D] in the compute type, for `step`."""
        return tf.zeros([batch_size, max_length, dim], self.compute_dtype)

    def step(self, x_chunk, cache, index):
        """The outputs of `call` at a chunk of positions, if causal.

        Args:
            x_chunk: [B,C,D].
            cache: [B,M,D], the positions before.
            index: int or int32 scalar tensor. Position of the chunk's first element.

        Returns:
            [B,C,D], and the cache after the chunk.
        """
        cache = write(cache, x_chunk, index)
        count = tf.shape(x_chunk)[1]
        rows = self._rows(index, count, tf.shape(cache)[1])  # [C,M]
        return tf.matmul(rows, cache) + self._biases(index, count), cache

    def _rows(self, index, count, length):
        """W[index : index + count, : length]."""
        rows = index + tf.expand_dims(tf.range(count), 1)  # [C,1]
        offsets = tf.range(length) - rows  # [C,T]
        kernel = tf.cast(self.kernel, self.compute_dtype)  # `step` is outside of Keras' autocast
        if self.toeplitz:
            slot = offsets + self.max_sequence_length - 1
            inside = (slot >= 0) & (slot < self._num_offsets)
            matrix = tf.gather(kernel, tf.clip_by_value(slot, 0, self._num_offsets - 1))  # [C,T]
            return matrix * tf.cast(inside, matrix.dtype)
        matrix = kernel[index : index + count, :length]  # [C,T]
        return matrix * tf.cast(offsets <= 0, matrix.dtype) if self.causal else matrix

    def _biases(self, index, count):
        """What to add at the positions index .. index + count - 1: [C,1], or a scalar."""
        bias = tf.cast(self.bias, self.compute_dtype)
        return bias if self.toeplitz else tf.expand_dims(bias[index : index + count], 1)

    def num_parameters(self):
        """The elements of W, or w, and b."""
        length = self.max_sequence_length
        if self.toeplitz:
            return (length if self.causal else 2 * length - 1) + 1
        return length**2 + length
