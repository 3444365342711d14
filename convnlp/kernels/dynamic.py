"""Convolution over time whose taps differ at every position."""

import dataclasses
import functools

import tensorflow as tf

from convnlp.kernels.compiled import float32, rounded
from convnlp.kernels.gram import diagonals, fold_time, to_blocks, unfold_time
from convnlp.kernels.implementations import current_implementation
from convnlp.kernels.shifts import (
    dynamic_conv_valid,
    left_taps,
    length,
    merge_heads,
    pad_for_taps,
    same_segment,
    shifted,
    split_heads,
)
from convnlp.kernels.zero_pads import zero_pads

_MOST_TAPS_IN_A_LOOP = 15  # XLA adds up one by one: TensorFlow's own softmax over 31 takes half as long


@dataclasses.dataclass(frozen=True)
class _Settings:
    left: int
    dilation_rate: int
    softmax: bool
    masks: tuple  # names of those that are given


def dynamic_conv(x, taps, dilation_rate=1, causal=False, segment_ids=None, padding_mask=None, softmax=False):
    """Weighs each position's neighbours by its own taps.

        y[i, c] = sum_j taps[i, c // (D/H), j] x[i + r (j - p), c]

    p = K - 1 if causal, else (K - 1) // 2; positions outside the sequence count as zero.

    The fast form is one compiled loop over all taps where plain TensorFlow would run K passes over memory
    (graph mode) or keep K shifted copies for the gradient. The gradient by x is another such loop, which
    gathers from each neighbour what it took. The gradient by the taps is a blocked Gram matrix (gram.py).
    Instead of x at pads, the taps that meet them are made zero, D / (H K) times fewer numbers: a pass over x
    takes half as long as the loop at K = 7. The loops get the taps in float32: XLA would convert a bfloat16
    tap anew for each channel that it serves, which takes three times as long at K = 7.

    Args:
        x: tensor [B,T,D], float.
        taps: tensor [B,T,H,K], float; H divides D.
        dilation_rate: int, >= 1. The distance r of neighbouring taps. Defaults to 1.
        causal: bool. Whether a position sees only itself and earlier ones. Defaults to `False`.
        segment_ids: int32 tensor [B,T]. Each segment is one run of equal ids; positions of others count as
            zero. Defaults to one segment.
        padding_mask: bool tensor [B,T], True = token; the other positions of x count as zero, but must be
            finite. Defaults to all tokens.
        softmax: bool. Whether `taps` are logits, normalised here by a softmax over K in float32. Those that
            meet nothing count in it. Defaults to `False`.

    Returns:
        Tensor [B,T,D] of x's type.

    Example:
    >>> x = tf.constant([[[1.0], [2.0], [3.0]]])
    >>> taps = tf.constant([[[[0.0, 1.0]], [[1.0, 0.0]], [[1.0, 1.0]]]])
    >>> dynamic_conv(x, taps, causal=True)[0, :, 0].numpy().tolist()
    [1.0, 1.0, 5.0]
    """
    x, taps = tf.convert_to_tensor(x), tf.convert_to_tensor(taps)
    fast = current_implementation() == "fast"
    if padding_mask is not None and not fast:
        x, padding_mask = zero_pads(x, padding_mask), None
    if fast and softmax and taps.shape[-1] > _MOST_TAPS_IN_A_LOOP:
        taps, softmax = tf.nn.softmax(float32(taps)), False
    masks = {"segment_ids": segment_ids, "padding_mask": padding_mask}
    masks = {name: mask for name, mask in masks.items() if mask is not None}
    settings = _Settings(left_taps(taps.shape[-1], causal), dilation_rate, softmax, tuple(masks))
    if fast:
        return _fast(settings, x, taps, *masks.values())
    padded = pad_for_taps(x, taps.shape[-1], settings.left, dilation_rate)
    return dynamic_conv_valid(padded, _used(settings, taps, *masks.values()), dilation_rate)


def _kept(settings, kernel_size, *masks):
    """Float32 [B,T,1,K]: 1 where a tap meets a token of its own segment, 0 where not."""
    kept = tf.ones([1, 1, kernel_size], tf.bool)
    where = (kernel_size, settings.left, settings.dilation_rate)
    for name, mask in zip(settings.masks, masks, strict=True):
        if name == "segment_ids":
            kept &= same_segment(mask, *where)  # [B,T,K]
        else:
            met = shifted(pad_for_taps(mask, *where), kernel_size, settings.dilation_rate)
            kept &= tf.stack(met, axis=-1)  # [B,T,K]
    return tf.expand_dims(tf.cast(kept, tf.float32), 2)


def _used(settings, taps, *masks):
    """What x is weighed by, float32 [B,T,H,K]."""
    taps = float32(taps)
    if settings.softmax:
        taps = tf.nn.softmax(taps)
    return taps * _kept(settings, taps.shape[-1], *masks) if masks else taps


def _forward(settings, x, taps):
    num_heads, kernel_size = taps.shape[2:]
    # Padded by heads: XLA then checks once a head, not once a channel, whether a tap meets the sequence.
    heads = _met(split_heads(float32(x), num_heads), kernel_size, settings.left, settings.dilation_rate)
    terms = [taps[..., j : j + 1] * heads[j] for j in range(kernel_size)]  # [B,T,H,D/H]
    return rounded(merge_heads(tf.add_n(terms)), x.dtype)


def _all_in_one(settings, x, taps, *masks):
    """Softmax, padding mask on x, and convolution."""
    for mask in masks:
        x *= tf.expand_dims(tf.cast(mask, x.dtype), 2)
    return _forward(settings, x, _used(settings, taps))


def _input_gradient(settings, dy, taps):
    """dx[s] = sum_j taps[s - r (j - left), j] dy[s - r (j - left)]: each product, shifted back."""
    num_heads, kernel_size = taps.shape[2:]
    where = kernel_size, kernel_size - 1 - settings.left, settings.dilation_rate
    heads, taps = _met(split_heads(float32(dy), num_heads), *where), _met(taps, *where)
    # The output that tap j wrote for the input at s is K - 1 - j windows to the right.
    terms = [taps[-1 - j][..., j : j + 1] * heads[-1 - j] for j in range(kernel_size)]  # [B,T,H,D/H]
    return rounded(merge_heads(tf.add_n(terms)), dy.dtype)


def _met(x, kernel_size, left, dilation_rate):
    """[B,T,...] -> what each of the K taps meets: a list of [B,T,...]."""
    return shifted(pad_for_taps(x, kernel_size, left, dilation_rate), kernel_size, dilation_rate)


def _used_gradient(settings, dused, taps, *masks):
    """The gradient by the taps that `_used` was given, from that by what it returned."""
    gradient = float32(dused)
    if masks:
        gradient *= _kept(settings, taps.shape[-1], *masks)
    if settings.softmax:
        weights = tf.nn.softmax(float32(taps))
        gradient = weights * (gradient - tf.reduce_sum(gradient * weights, axis=-1, keepdims=True))
    return tf.cast(gradient, taps.dtype)


def _island(function, settings, *tensors):
    """`function(settings, *tensors)` as one XLA loop; traced once for all lengths, compiled for each."""
    specs = tuple(tf.TensorSpec([None, None, *tensor.shape[2:]], tensor.dtype) for tensor in tensors)
    return _traced(function, settings, specs)(*tensors)


@functools.cache
def _traced(function, settings, specs):
    return tf.function(
        lambda *tensors: function(settings, *tensors), list(specs), autograph=False, jit_compile=True
    )


def _fast(settings, x, taps, *masks):
    changed = settings.softmax or masks

    def used_taps(taps):
        # An island of its own: in the loop, XLA would compute a tap anew for each channel that it serves.
        return _island(_used, settings, taps, *masks) if changed else float32(taps)

    # In float32 with the mask on x, XLA does not: all is one loop. The gradient computes the taps again.
    in_one = changed and x.dtype == tf.float32 and "segment_ids" not in settings.masks

    @tf.custom_gradient
    def conv(x, taps):
        used = None if in_one else used_taps(taps)
        forward = (_all_in_one, settings, x, taps, *masks) if in_one else (_forward, settings, x, used)

        def grad(dy):
            weights = used_taps(taps) if in_one else used
            dx = _island(_input_gradient, settings, dy, weights)
            dtaps = _taps_gradient(settings, dy, x, taps)
            if changed:
                dtaps = _island(_used_gradient, settings, dtaps, taps, *masks)
            return tf.ensure_shape(dx, x.shape), tf.ensure_shape(tf.cast(dtaps, taps.dtype), taps.shape)

        return tf.ensure_shape(_island(*forward), x.shape), grad

    return conv(x, taps)


def _taps_gradient(settings, dy, x, taps):
    num_heads, kernel_size = taps.shape[2:]
    left, dilation_rate = settings.left, settings.dilation_rate
    time = length(dy)
    dy, x = fold_time(dy, dilation_rate), fold_time(x, dilation_rate)  # [B*r,T/r,D]
    folded = length(dy)
    dy, x = to_blocks(dy, x, kernel_size, left)
    dy, x = _by_head(dy, num_heads), _by_head(x, num_heads)  # [B,N,H,block,D/H], [B,N,H,block+K-1,D/H]
    gram = tf.matmul(dy, x, transpose_b=True)  # [B*r,N,H,block,block+K-1]
    dtaps = _island(_along_diagonals, settings, gram)[:, :folded]  # [B*r,T/r,H,K]
    return unfold_time(dtaps, dilation_rate, time)


def _along_diagonals(_, gram):
    """[B,N,H,block,block+K-1] -> [B,N*block,H,K]. Compiled, it is one copy instead of three."""
    num_heads, block, columns = gram.shape[2:]
    kernel_size = columns - block + 1
    dtaps = tf.transpose(diagonals(gram, kernel_size), [0, 1, 3, 2, 4])  # [B,N,block,H,K]
    return tf.reshape(dtaps, [length(gram, 0), -1, num_heads, kernel_size])


def _by_head(blocks, num_heads):
    """[B,N,U,D] -> [B,N,H,U,D/H]."""
    batch, num_blocks, rows, dim = (length(blocks, axis) for axis in range(4))
    blocks = tf.reshape(blocks, [batch, num_blocks, rows, num_heads, dim // num_heads])  # [B,N,U,H,D/H]
    return tf.transpose(blocks, [0, 1, 3, 2, 4])
