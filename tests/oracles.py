"""Token mixers as loops over the symbols of their equations: slow, and plain enough to be checked by eye.

Each oracle takes a built mixer (for its weights and sizes), one row x [T,D], and `visible` [T,T]: whether
position m exists for the output at position i (it is a token, and of the same segment). It returns [T,D] as
float64.
"""

import math

import numpy as np


def softmax(values):
    """Softmax over the last axis."""
    exp = np.exp(values - values.max(-1, keepdims=True))
    return exp / exp.sum(-1, keepdims=True)


def weight(variable):
    """A Keras weight as float64."""
    return np.asarray(variable, "float64")


def convolution(mixer, x, visible, tap):
    """y[i, c] = sum_j tap(i, c, j) x[i + r (j - p), c]."""
    time, dim = x.shape
    size = mixer.kernel_size
    p = size - 1 if mixer.causal else (size - 1) // 2
    y = np.zeros([time, dim])
    for i in range(time):
        for c in range(dim):
            for j in range(size):
                m = i + mixer.dilation_rate * (j - p)
                if 0 <= m < time and visible[i, m]:
                    y[i, c] += tap(i, c, j) * x[m, c]
    return y


def lightweight_conv(mixer, x, visible):
    """One softmaxed filter for each block of D/H channels."""
    kernel = weight(mixer.kernel)
    taps = softmax(kernel) if mixer.weight_softmax else kernel
    block = x.shape[1] // mixer.num_heads
    return convolution(mixer, x, visible, lambda i, c, j: taps[c // block, j])


def dynamic_conv(mixer, x, visible):
    """The filters of position i are x[i] W, softmaxed."""
    logits = (x @ weight(mixer.generator.kernel)).reshape(len(x), mixer.num_heads, mixer.kernel_size)
    taps = softmax(logits) if mixer.weight_softmax else logits
    block = x.shape[1] // mixer.num_heads
    return convolution(mixer, x, visible, lambda i, c, j: taps[i, c // block, j])


def dilated_conv(mixer, x, visible):
    """A filter for each channel."""
    kernel = weight(mixer.kernel)
    taps = softmax(kernel) if mixer.weight_softmax else kernel
    return convolution(mixer, x, visible, lambda i, c, j: taps[c, j])


def bucket(offset, causal):
    """T5's bucket of a key `offset` positions to the right of its query (architectures.md, 4.4)."""
    if causal:
        start, distance, buckets = 0, max(-offset, 0), 32
    else:
        start, distance, buckets = (16 if offset > 0 else 0), abs(offset), 16
    exact = buckets // 2
    if distance < exact:
        return start + distance
    log_share = math.log(distance / exact) / math.log(128 / exact)
    return start + min(exact + math.floor(log_share * (buckets - exact)), buckets - 1)


def self_attention(mixer, x, visible):
    """softmax(q_i k_m + b[bucket(m - i)]) over the visible m (up to i if causal), head by head."""
    time, dim = x.shape
    width = dim // mixer.num_heads
    queries, keys, values = (x @ weight(layer.kernel) for layer in (mixer.query, mixer.key, mixer.value))
    table = weight(mixer.bias.table)
    mixed = np.zeros([time, dim])
    for h in range(mixer.num_heads):
        part = slice(h * width, (h + 1) * width)
        for i in range(time):
            seen = [m for m in range(time) if visible[i, m] and (m <= i or not mixer.causal)]
            if seen:
                logits = [
                    queries[i, part] @ keys[m, part] + table[h, bucket(m - i, mixer.causal)] for m in seen
                ]
                mixed[i, part] = softmax(np.array(logits)) @ values[seen, part]
    return mixed @ weight(mixer.output_projection.kernel)
