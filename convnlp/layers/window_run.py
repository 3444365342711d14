"""Sums over windows of positions in front of each position, or behind it."""

import dataclasses

import tensorflow as tf

from convnlp import kernels


@dataclasses.dataclass(frozen=True)
class WindowRun:
    """Windows of one size next to each other, to one side of a position.

    Args:
        size: int. Positions s of a window.
        weights: [s], those of the positions in a window; None where s is 1.
        distance: int. From the position to the nearest of the windows: 0 if that is the position itself.
        bias: [H,r], from left to right.
    """

    size: int
    weights: tf.Tensor | None
    distance: int
    bias: tf.Tensor

    def pool(self, seen, segment_ids):
        """[B,T,2D] -> [B,T,2D]: the sum over the window that ends at each position, within its text."""
        if self.weights is None:
            return seen
        return _causal_sums(seen, tf.convert_to_tensor(self.weights), segment_ids)

    def pool_behind(self, seen, segment_ids):
        """[B,T,2D] -> [B,T,2D]: the sum over the window that begins at each position, within its text."""
        if self.weights is None:
            return seen
        seen, weights = tf.reverse(seen, [1]), tf.reverse(tf.convert_to_tensor(self.weights), [0])
        segment_ids = None if segment_ids is None else tf.reverse(segment_ids, [1])
        return tf.reverse(_causal_sums(seen, weights, segment_ids), [1])

    def as_matrix(self, reach):
        """Of windows in front, float32 [r,R+1]: their weights of the R positions and their own one."""
        count = self.bias.shape[1]
        weights = tf.ones([1]) if self.weights is None else tf.convert_to_tensor(self.weights)
        windows = tf.range(count)
        own = tf.cast(tf.expand_dims(windows, 1) == windows, tf.float32)  # [r,r]
        sums = tf.reshape(tf.expand_dims(own, 2) * weights, [count, count * self.size])
        return tf.pad(sums, [[0, 0], [reach + 1 - self.distance - count * self.size, self.distance]])

    def nearest(self):
        """Of windows in front, int32 [r]: how far from the position each one ends."""
        return self.distance + self.size * tf.range(self.bias.shape[1] - 1, -1, -1)


def _causal_sums(x, weights, segment_ids):
    taps = tf.expand_dims(tf.cast(weights, x.dtype), 0)  # [1,s]
    return kernels.depthwise_conv(x, taps, causal=True, segment_ids=segment_ids)
