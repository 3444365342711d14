"""Sums over windows of positions before or after each position."""

import dataclasses

import tensorflow as tf

from convnlp import kernels


@dataclasses.dataclass(frozen=True)
class WindowRun:
    """r adjacent windows of one size on one side of a position.

    Args:
        size: int. Number s of positions in a window.
        weights: float32 tensor [s], the weights of the positions in a window; None if s is 1.
        distance: int. Distance from the position to the nearest window: 0 if that is the position itself.
        bias: float32 tensor [H,r], the position biases of the windows, from left to right.
    """

    size: int
    weights: tf.Tensor | None
    distance: int
    bias: tf.Tensor

    def pool(self, seen, segment_ids):
        """Returns the sum over the window that ends at each position, within its text: [B,T,2D] each."""
        if self.weights is None:
            return seen
        return _causal_sums(seen, tf.convert_to_tensor(self.weights), segment_ids)

    def pool_behind(self, seen, segment_ids):
        """Returns the sum over the window that begins at each position, within its text: [B,T,2D] each."""
        if self.weights is None:
            return seen
        seen, weights = tf.reverse(seen, [1]), tf.reverse(tf.convert_to_tensor(self.weights), [0])
        segment_ids = None if segment_ids is None else tf.reverse(segment_ids, [1])
        return tf.reverse(_causal_sums(seen, weights, segment_ids), [1])

    def as_matrix(self, reach):
        """Returns windows before a position as a matrix: float32 [r,R+1].

        A row holds a window's weights of the R = `reach` positions before, and of the position itself.
        """
        count = self.bias.shape[1]
        weights = tf.ones([1]) if self.weights is None else tf.convert_to_tensor(self.weights)
        windows = tf.range(count)
        own = tf.cast(tf.expand_dims(windows, 1) == windows, tf.float32)  # [r,r]
        sums = tf.reshape(tf.expand_dims(own, 2) * weights, [count, count * self.size])
        return tf.pad(sums, [[0, 0], [reach + 1 - self.distance - count * self.size, self.distance]])

    def nearest(self):
        """Returns how far from the position each of the windows before it ends: int32 [r]."""
        return self.distance + self.size * tf.range(self.bias.shape[1] - 1, -1, -1)


def _causal_sums(x, weights, segment_ids):
    taps = tf.expand_dims(tf.cast(weights, x.dtype), 0)  # [1,s]
    return kernels.depthwise_conv(x, taps, causal=True, segment_ids=segment_ids)
