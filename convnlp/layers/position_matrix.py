"""A learned weight for every pair of positions, shared by all channels or by a block of them."""

import keras
import tensorflow as tf

from convnlp.kernels import merge_heads, same_segment, split_heads
from convnlp.layers.cache import write
from convnlp.layers.masks import positions_in_segments


class PositionMatrix(keras.layers.Layer):
    """y[i] = sum_j W[i, j] x[j] + b[i], over the positions of a text.

    Dense: W is [L,L] and b is [L]; a text of T <= L positions uses W[:T, :T] and b[:T]. Toeplitz: W[i, j] =
    w[j - i], which is 0 for |j - i| >= L, and b is one number, so that a text may have any length. If causal,
    W[i, j] = 0 for j > i. With H heads there are H such W and b, each for a block of D / H neighbouring
    channels; they are on the last axis of the weights.

    Masking: x must be zero at pads. Packing: positions are counted from the start of each text.

    Args:
        max_sequence_length: int. L.
        causal: bool. Whether an output sees only its own and earlier positions.
        toeplitz: bool. Whether W depends only on the distance. Defaults to `False`.
        kernel_initializer: Keras initializer of W or w. Defaults to `"glorot_uniform"`.
        bias_initializer: Keras initializer of b. Defaults to `"zeros"`.
        num_heads: int. H; divides D. Defaults to `1`.
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
        num_heads=1,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.max_sequence_length = max_sequence_length
        self.causal = causal
        self.toeplitz = toeplitz
        self.num_heads = num_heads
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, *_):
        length = self.max_sequence_length
        # Toeplitz: the offsets j - i from 1 - L to 0 if causal, else to L - 1.
        self._num_offsets = length if self.causal else 2 * length - 1
        shape = (self._num_offsets,) if self.toeplitz else (length, length)
        self.kernel = self._add_weight("kernel", shape, self.kernel_initializer)
        self.bias = self._add_weight("bias", () if self.toeplitz else (length,), self.bias_initializer)

    def _add_weight(self, name, shape, initializer):
        """Adds a weight of that shape, or [*shape,H]; each head is initialised as if it were alone."""
        if self.num_heads == 1:
            return self.add_weight(name=name, shape=shape, initializer=initializer)

        def by_head(_, dtype):
            return tf.stack([initializer.clone()(shape, dtype) for _ in range(self.num_heads)], axis=-1)

        return self.add_weight(name=name, shape=(*shape, self.num_heads), initializer=by_head)

    def call(self, x, segment_ids=None):
        """Maps x [B,T,D] to [B,T,D]; segment_ids are int32 [B,T] or None."""
        length, dim = tf.shape(x)[1], x.shape[2]
        if segment_ids is None:
            return self._product(self._rows(0, length, length), x) + self._biases(0, length, dim)  # [B,T,D]
        if self.toeplitz:
            matrix = tf.expand_dims(self._rows(0, length, length), 0)  # [1,T,T]; packing keeps the offsets
            bias = self._biases(0, length, dim)
        else:
            positions = positions_in_segments(segment_ids)  # [B,T]
            matrix = tf.gather(self._rows(0, length, length), positions)  # [B,T,T]
            matrix = tf.gather(matrix, positions, axis=2, batch_dims=1)  # [B,T,T]
            bias = tf.gather(self._biases(0, length, dim), positions)  # [B,T,1 or D]
        matrix *= self._of_each_head(same_segment(segment_ids), matrix.dtype)
        return self._product(matrix, x) + bias  # [B,T,D]

    def _of_each_head(self, mask, dtype):
        """Turns a bool mask [...,T,T] into a factor of W: 1 and 0, with a last axis if there are heads."""
        mask = tf.cast(mask, dtype)
        return mask if self.num_heads == 1 else tf.expand_dims(mask, -1)

    def _product(self, matrix, x):
        """Computes W x: [C,T] or [B,C,T], with a last axis H if there are heads, and [B,T,D] -> [B,C,D]."""
        if self.num_heads == 1:
            return tf.matmul(matrix, x)
        matrix = tf.transpose(matrix, [2, 0, 1] if matrix.shape.rank == 3 else [0, 3, 1, 2])  # [...,H,C,T]
        heads = tf.transpose(split_heads(x, self.num_heads), [0, 2, 1, 3])  # [B,H,T,D/H]
        return merge_heads(tf.transpose(tf.matmul(matrix, heads), [0, 2, 1, 3]))

    def empty_cache(self, batch_size, max_length, dim):
        """Returns zeros [B,max_length,D] in the compute dtype, for `step`."""
        return tf.zeros([batch_size, max_length, dim], self.compute_dtype)

    def step(self, x_chunk, cache, index):
        """Computes the outputs of a causal `call` for a chunk of positions.

        Args:
            x_chunk: tensor [B,C,D].
            cache: tensor [B,M,D], the inputs so far.
            index: int or int32 scalar tensor. Position of the chunk's first element.

        Returns:
            Tensor [B,C,D], and the cache after the chunk.
        """
        cache = write(cache, x_chunk, index)
        count = tf.shape(x_chunk)[1]
        rows = self._rows(index, count, tf.shape(cache)[1])  # [C,M]
        return self._product(rows, cache) + self._biases(index, count, x_chunk.shape[2]), cache

    def _rows(self, index, count, length):
        """Returns W[index : index + count, : length]: [C,T], or [C,T,H] if there are heads."""
        rows = index + tf.expand_dims(tf.range(count), 1)  # [C,1]
        offsets = tf.range(length) - rows  # [C,T]
        kernel = tf.cast(self.kernel, self.compute_dtype)  # `step` runs outside Keras's autocast
        if self.toeplitz:
            slot = offsets + self.max_sequence_length - 1
            inside = (slot >= 0) & (slot < self._num_offsets)
            matrix = tf.gather(kernel, tf.clip_by_value(slot, 0, self._num_offsets - 1))  # [C,T]
            return matrix * self._of_each_head(inside, matrix.dtype)
        matrix = kernel[index : index + count, :length]  # [C,T]
        return matrix * self._of_each_head(offsets <= 0, matrix.dtype) if self.causal else matrix

    def _biases(self, index, count, dim):
        """Returns the biases at positions index .. index + count - 1.

        Returns:
            [C,1], or a scalar if Toeplitz; with heads [C,D], or [D] if Toeplitz.
        """
        bias = tf.cast(self.bias, self.compute_dtype)
        bias = bias if self.toeplitz else bias[index : index + count]
        if self.num_heads > 1:
            return tf.repeat(bias, dim // self.num_heads, axis=-1)
        return bias if self.toeplitz else tf.expand_dims(bias, 1)

    def num_parameters(self):
        """Returns the number of elements of W or w, and b."""
        length = self.max_sequence_length
        if self.toeplitz:
            return self.num_heads * ((length if self.causal else 2 * length - 1) + 1)
        return self.num_heads * (length**2 + length)
