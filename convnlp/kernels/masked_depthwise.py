"""The depthwise convolution of a padded batch with few taps: mask and convolution in one compiled loop."""

import tensorflow as tf

from convnlp.kernels.compiled import compiled
from convnlp.kernels.implementations import current_implementation
from convnlp.kernels.shifts import length, merge_heads, pad_time, split_heads

_MOST_TAPS = 7  # with 15, the loop is slower than a pass for the mask plus TensorFlow's op
_FEWEST_CHANNELS = 16  # per head, over which the innermost loop runs


def one_loop_pays(x, taps, dilation_rate):
    """Whether one loop is the fastest form: in float32, with few taps that are shared by many channels."""
    few = taps.shape[1] <= _MOST_TAPS and dilation_rate == 1
    shared = x.shape[2] // taps.shape[0] >= _FEWEST_CHANNELS
    return few and shared and x.dtype == tf.float32 and current_implementation(x) == "fast"


@compiled
def masked_conv(x, taps, mask, left, num_heads, mask_outputs=False):
    """Computes y[i, c] = sum_j taps[h(c), j] mask[i + j - left] x[i + j - left, c], in float32.

    A mask before TensorFlow's op is a pass over memory that takes as long as the op. XLA would fuse both into
    a loop, but then check for each tap whether it is inside the sequence, which takes as long as both passes.
    Here nothing needs checking: all positions that see K inputs are one expression, and each of the K - 1
    others, at both ends, is an expression of the taps that it sees. Pads are multiplied by zero and must be
    finite; a selection would take a third longer. Measured for [16,512,512], K = 7, H = 8, two threads:
    1.3 ms, against 3.1 ms.

    Args:
        x: tensor [B,T,D].
        taps: tensor [H,K].
        mask: tensor [B,T,1], 1 at a token, 0 at a pad.
        left: int. How many taps are left of the position that they write to.
        num_heads: int. H.
        mask_outputs: bool. Whether to mask y instead of x, as for the gradient of x. Defaults to `False`.

    Returns:
        Tensor [B,T,D].
    """
    time, kernel_size = length(x), taps.shape[1]
    reach = kernel_size - 1
    right = reach - left
    short = tf.maximum(reach - time, 0)  # Lengths are constants to XLA, so only such short rows are copied.
    inputs = pad_time(split_heads(x, num_heads), 0, short)  # [B,T,H,D/H]
    mask = pad_time(tf.expand_dims(mask, 3), 0, short)  # [B,T,1,1]
    weights = tf.reshape(taps, [num_heads, kernel_size, 1])

    def total(met):
        """Returns the sum over taps and the inputs that they meet, given as pairs (j, slice of T)."""
        terms = []
        for j, where in met:
            weight = weights[:, j] if mask_outputs else weights[:, j] * mask[:, where]
            terms.append(weight * inputs[:, where])
        return tf.add_n(terms)

    before = [total((j, _one(i + j - left)) for j in range(left - i, kernel_size)) for i in range(left)]
    within = total((j, slice(j, j - reach or None)) for j in range(kernel_size))
    after = [total((j, _one(j - left - i)) for j in range(left + i)) for i in range(right, 0, -1)]
    y = tf.concat([*before, within, *after], axis=1)  # [B,T,H,D/H]
    return merge_heads(tf.where(mask > 0.0, y, 0.0) if mask_outputs else y)[:, :time]


def _one(position):
    """Returns the slice of one position, which counts from the end if negative."""
    return slice(position, position + 1 or None)
