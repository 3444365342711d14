"""Convolution over time whose taps differ at every position."""

import dataclasses

import tensorflow as tf

from convnlp.kernels.compiled import float32, island, rounded
from convnlp.kernels.gram import block_size, diagonals, fold_time, unfold_time
from convnlp.kernels.implementations import current_implementation
from convnlp.kernels.shifts import (
    channels_by_head,
    dynamic_conv_valid,
    left_taps,
    length,
    merge_heads,
    pad_for_taps,
    pad_time,
    shifted,
    split_heads,
    taps_in_segment,
)

_MOST_TAPS_IN_A_LOOP = 15  # XLA adds them one by one; TensorFlow's own softmax over 31 takes half as long


@dataclasses.dataclass(frozen=True)
class _Settings:
    num_heads: int
    kernel_size: int
    left: int
    dilation_rate: int
    softmax: bool

    @property
    def alignment(self):
        """K, `left` and r, the arguments of the functions of `shifts`."""
        return self.kernel_size, self.left, self.dilation_rate


def dynamic_conv(x, taps, dilation_rate=1, causal=False, segment_ids=None, softmax=False):
    """Convolves each position's neighbours with the position's own taps.

        y[i, c] = sum_j taps[i, c // (D/H), j] x[i + r (j - p), c]

    p = K - 1 if causal, else (K - 1) // 2; positions outside the sequence count as zero.

    The fast form is one compiled loop over all taps, while plain TensorFlow would run K passes over memory
    (graph mode) or keep K shifted copies for the gradient. The gradient with respect to x is another such
    loop. The gradient with respect to the taps is a blocked Gram matrix (gram.py). The loops read the taps in
    float32: XLA would convert a bfloat16 tap again for each channel that it serves, which takes three times
    as long at K = 7. Measured for [16,512,512] in float32, K = 7, H = 8, two threads, with the gradients:
    12 ms, against 30 ms for the plain form compiled as a whole by XLA and 210 ms for its operations one by
    one.

    Args:
        x: tensor [B,T,D], float, zero at pads.
        taps: tensor [B,T,H,K], float; H divides D.
        dilation_rate: int >= 1. Distance r between neighbouring taps. Defaults to `1`.
        causal: bool. Whether a position sees only itself and earlier ones. Defaults to `False`.
        segment_ids: int32 tensor [B,T]. Each segment is one run of equal ids; positions of other segments
            count as zero. Defaults to one segment.
        softmax: bool. Whether `taps` are logits, to be normalised by a softmax over K in float32. Taps that
            meet zeros count in it too. Defaults to `False`.

    Returns:
        Tensor [B,T,D] of x's dtype.

    Example:
    >>> x = tf.constant([[[1.0], [2.0], [3.0]]])
    >>> taps = tf.constant([[[[0.0, 1.0]], [[1.0, 0.0]], [[1.0, 1.0]]]])
    >>> dynamic_conv(x, taps, causal=True)[0, :, 0].numpy().tolist()
    [1.0, 1.0, 5.0]
    """
    x, taps = tf.convert_to_tensor(x), tf.convert_to_tensor(taps)
    fast = current_implementation() == "fast"
    num_heads, kernel_size = taps.shape[2:]
    if fast and softmax and kernel_size > _MOST_TAPS_IN_A_LOOP:
        taps, softmax = tf.nn.softmax(float32(taps)), False
    settings = _Settings(num_heads, kernel_size, left_taps(kernel_size, causal), dilation_rate, softmax)
    segments = () if segment_ids is None else (segment_ids,)
    if fast:
        return _fast(settings, x, taps, segments)
    padded = pad_for_taps(x, *settings.alignment)
    return dynamic_conv_valid(padded, _weights(taps, *segments, settings=settings), dilation_rate)


def _weights(taps, *segments, settings):
    """Returns the weights of x, float32 [B,T,H,K]."""
    taps = float32(taps)
    if settings.softmax:
        taps = tf.nn.softmax(taps)
    return _within_segments(taps, *segments, settings=settings)


def _within_segments(values, *segments, settings):
    """Zeroes values [B,T,H,K] of taps that meet another segment; `segments` is one tensor [B,T] or none."""
    for segment_ids in segments:
        same = taps_in_segment(segment_ids, *settings.alignment)  # [B,T,K]
        values *= tf.expand_dims(tf.cast(same, values.dtype), 2)
    return values


def _convolution(x, weights, settings):
    window = pad_for_taps(float32(x), *settings.alignment)
    return rounded(dynamic_conv_valid(window, weights, settings.dilation_rate), x.dtype)


def _softmax_and_convolution(x, taps, settings):
    return _convolution(x, _weights(taps, settings=settings), settings)


def _input_gradient(dy, weights, settings):
    """Returns dx[s] = sum_j weights[s - r (j - left), j] dy[s - r (j - left)]: each product, shifted back."""
    kernel_size, left, dilation_rate = settings.alignment
    where = kernel_size, kernel_size - 1 - left, dilation_rate
    heads = split_heads(pad_for_taps(float32(dy), *where), settings.num_heads)
    heads = shifted(heads, kernel_size, dilation_rate)
    weights = shifted(pad_for_taps(weights, *where), kernel_size, dilation_rate)
    # Tap j carried the input at s to the output that is K - 1 - j windows to the right.
    terms = [weights[-1 - j][..., j : j + 1] * heads[-1 - j] for j in range(kernel_size)]  # [B,T,H,D/H]
    return rounded(merge_heads(tf.add_n(terms)), dy.dtype)


def _taps_gradient(dweights, weights, taps, *segments, settings):
    """Returns the gradient with respect to the taps given to `_weights`, from that of its result."""
    gradient = _within_segments(float32(dweights), *segments, settings=settings)
    if settings.softmax:
        probabilities = tf.nn.softmax(float32(taps)) if segments else weights
        gradient = probabilities * (gradient - tf.reduce_sum(gradient * weights, axis=-1, keepdims=True))
    return tf.cast(gradient, taps.dtype)


def _island(function, settings, *tensors):
    """Runs `function(*tensors, settings)` as one XLA loop, for all lengths."""
    return island(function, *tensors, first_known_axis=2, settings=settings)


def _fast(settings, x, taps, segments):
    taps_are_weights = not settings.softmax and not segments

    def weights_of(taps):
        # A separate island: in bfloat16 or with segments, XLA would compute a tap again for each channel.
        return float32(taps) if taps_are_weights else _island(_weights, settings, taps, *segments)

    # In float32 it does not: everything is one loop, and the gradient computes the weights.
    in_one = settings.softmax and x.dtype == tf.float32 and not segments

    @tf.custom_gradient
    def conv(x, taps):
        if in_one:
            weights = None
            y = _island(_softmax_and_convolution, settings, x, taps)
        else:
            weights = weights_of(taps)
            y = _island(_convolution, settings, x, weights)

        def grad(dy):
            used = weights_of(taps) if weights is None else weights
            dx = _island(_input_gradient, settings, dy, used)
            dtaps = _weights_gradient(settings, dy, x)
            if not taps_are_weights:
                dtaps = _island(_taps_gradient, settings, dtaps, used, taps, *segments)
            return tf.ensure_shape(dx, x.shape), tf.ensure_shape(tf.cast(dtaps, taps.dtype), taps.shape)

        return tf.ensure_shape(y, x.shape), grad

    return conv(x, taps)


def _weights_gradient(settings, dy, x):
    """Returns the diagonals of a blocked Gram matrix, [B,T,H,K] of x's dtype."""
    time = length(dy)
    dy, x = (fold_time(tensor, settings.dilation_rate) for tensor in (dy, x))  # [B*r,T/r,...]
    folded = length(dy)
    dy = _blocks(settings, pad_time(dy, 0, -folded % block_size(settings.kernel_size)))
    x = _island(_blocks_with_halo, settings, x)
    gram = tf.matmul(x, dy, transpose_b=True)  # [B*r,N,H,block+K-1,block]
    gradient = _island(_along_diagonals, settings, gram)[:, :folded]  # [B*r,T/r,H,K]
    return unfold_time(gradient, settings.dilation_rate, time)


def _blocks(settings, x):
    """[B,N*block,D] -> [B,N,H,block,D/H]."""
    heads = channels_by_head(x.shape[-1], settings.num_heads)
    blocks = tf.reshape(x, [length(x, 0), -1, block_size(settings.kernel_size), *heads])  # [B,N,block,H,D/H]
    return tf.transpose(blocks, [0, 1, 3, 2, 4])


def _blocks_with_halo(x, settings):
    """[B,T,D] -> [B,N,H,block+K-1,D/H].

    The blocks of `to_blocks`, head by head. Compiled, it is one copy instead of three.
    """
    block, halo = block_size(settings.kernel_size), settings.kernel_size - 1
    time = length(x)
    rest = -time % block + block - settings.left  # to the end of an extra block, the halo of the last one
    blocks = _blocks(settings, pad_time(x, settings.left, rest))  # [B,N+1,H,block,D/H]
    return tf.concat([blocks[:, :-1], blocks[:, 1:, :, :halo]], axis=3)


def _along_diagonals(gram, settings):
    """[B,N,H,block+K-1,block] -> [B,N*block,H,K]. Compiled, it is one copy instead of three."""
    gram = tf.transpose(gram, [0, 1, 2, 4, 3])  # The product is faster with the longer side first.
    gradient = tf.transpose(diagonals(gram, settings.kernel_size), [0, 1, 3, 2, 4])  # [B,N,block,H,K]
    return tf.reshape(gradient, [length(gram, 0), -1, settings.num_heads, settings.kernel_size])
