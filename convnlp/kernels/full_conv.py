"""Convolution over time that also mixes channels: one matrix product over K inputs side by side."""

import tensorflow as tf

from convnlp.kernels.project import project
from convnlp.kernels.shifts import left_taps, pad_for_taps, shifted, taps_in_segment


def full_conv(x, kernel, dilation_rate=1, causal=False, segment_ids=None, kept=None):
    """Convolves all channels into new ones.

        y[i] = sum_j x[i + r (j - p)] kernel[j]

    p = K - 1 if causal, else (K - 1) // 2; positions outside the sequence count as zero. There is only one
    form, because the product takes far longer than copying its K inputs side by side.

    Args:
        x: tensor [B,T,D], float.
        kernel: tensor [K,D,E], float, cast as in `project`.
        dilation_rate: int >= 1. Distance r between neighbouring taps. Defaults to `1`.
        causal: bool. Whether a position sees only itself and earlier ones. Defaults to `False`.
        segment_ids: int32 tensor [B,T]. Each segment is one run of equal ids; positions of other segments
            count as zero. Defaults to one segment.
        kept: bool tensor [B,T,K], which taps count at each position. Defaults to all.

    Returns:
        Tensor [B,T,E] of x's dtype.

    Example:
    >>> x = tf.constant([[[1.0], [2.0], [3.0]]])
    >>> full_conv(x, tf.constant([[[10.0]], [[1.0]]]), causal=True)[0, :, 0].numpy().tolist()
    [1.0, 12.0, 23.0]
    """
    x = tf.convert_to_tensor(x)
    kernel_size = kernel.shape[0]
    left = left_taps(kernel_size, causal)
    met = shifted(pad_for_taps(x, kernel_size, left, dilation_rate), kernel_size, dilation_rate)
    if segment_ids is not None:
        same = taps_in_segment(segment_ids, kernel_size, left, dilation_rate)  # [B,T,K]
        kept = same if kept is None else kept & same
    if kept is not None:
        kept = tf.cast(kept, x.dtype)
        met = [inputs * kept[:, :, j : j + 1] for j, inputs in enumerate(met)]
    return _product(met, kernel)


def full_conv_valid(window, kernel, dilation_rate=1):
    """Like `full_conv`, without padding.

    Args:
        window: tensor [B,(K-1)*r+C,D].
        kernel: tensor [K,D,E].
        dilation_rate: int r. Defaults to `1`.

    Returns:
        Tensor [B,C,E] of the window's dtype.
    """
    return _product(shifted(window, kernel.shape[0], dilation_rate), kernel)


def _product(met, kernel):
    """K inputs [B,T,D] and kernel [K,D,E] -> [B,T,E]."""
    side_by_side = tf.concat(met, axis=-1)  # [B,T,K*D]
    return project(side_by_side, tf.reshape(kernel, [-1, kernel.shape[-1]]))  # [B,T,E]
