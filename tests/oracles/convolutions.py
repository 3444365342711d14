"""Convolutions, depthwise and over all channels."""

import numpy as np

from tests.oracles.arithmetic import softmax, weight


def positions(mixer, i, rate):
    """Which position each tap meets at position i."""
    size = mixer.kernel_size
    p = size - 1 if mixer.causal else (size - 1) // 2
    return [i + rate * (j - p) for j in range(size)]


def convolution(mixer, x, visible, logits, prefix, right_to_left):
    """y[i, c] = sum_j w_i[c // (D/H), j] x[i + r (j - p), c], with w_i [H,K] made of logits(i).

    With a prefix, the taps that meet what is behind position i and not in its own prefix do not exist: they
    are not part of the softmax either. From right to left, those that meet what is before i do not.
    """
    time, dim = x.shape
    y = np.zeros([time, dim])
    for i in range(time):
        met = positions(mixer, i, mixer.dilation_rate)
        exists = (
            [m >= i for m in met]
            if right_to_left
            else [prefix is None or m <= i or (m < time and prefix[m] and visible[i, m]) for m in met]
        )
        taps = np.where(exists, logits(i), 0.0)  # [H,K]
        if mixer.weight_softmax:
            taps[:, exists] = softmax(logits(i)[:, exists])
        block = dim // len(taps)
        for c in range(dim):
            for j, m in enumerate(met):
                if 0 <= m < time and visible[i, m]:
                    y[i, c] += taps[c // block, j] * x[m, c]
    return y


def lightweight_conv(mixer, x, visible, prefix=None, right_to_left=False):
    """One softmaxed filter for each block of D/H channels."""
    return convolution(mixer, x, visible, lambda i: weight(mixer.kernel), prefix, right_to_left)


def dynamic_conv(mixer, x, visible, prefix=None, right_to_left=False):
    """The filters of position i are x[i] W, softmaxed."""
    logits = (x @ weight(mixer.generator.kernel)).reshape(len(x), mixer.num_heads, mixer.kernel_size)
    return convolution(mixer, x, visible, lambda i: logits[i], prefix, right_to_left)


def dilated_conv(mixer, x, visible, prefix=None, right_to_left=False):
    """A filter for each channel."""
    return convolution(mixer, x, visible, lambda i: weight(mixer.kernel), prefix, right_to_left)


def full_convolution(mixer, x, visible, prefix, right_to_left, dilation_rate):
    """The two halves of y[i] = sum_j x[i + r (j - p)] W[j], over the j that exist."""
    time, dim = x.shape
    kernel = weight(mixer.kernel)
    y = np.zeros([time, 2 * dim])
    for i in range(time):
        for j, m in enumerate(positions(mixer, i, dilation_rate)):
            if right_to_left and m < i:
                continue
            if 0 <= m < time and visible[i, m] and (prefix is None or m <= i or prefix[m]):
                y[i] += x[m] @ kernel[j]
    return y[:, :dim], y[:, dim:]


def gated_dilated_conv(mixer, x, visible, prefix=None, right_to_left=False):
    """x (1 - s) + h s with s = sigmoid(g)."""
    h, g = full_convolution(mixer, x, visible, prefix, right_to_left, mixer.dilation_rate)
    s = 1 / (1 + np.exp(-g))
    return x * (1 - s) + h * s


def conv_s2s(mixer, x, visible, prefix=None, right_to_left=False):
    """(x + a sigmoid(b)) sqrt(1/2)."""
    a, b = full_convolution(mixer, x, visible, prefix, right_to_left, 1)
    return (x + a / (1 + np.exp(-b))) / np.sqrt(2)


def gelu(x):
    """By its tanh formula."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def mb_conv(mixer, x, visible):
    """(s z) W_2 with z the gelu of the filtered gelu(x W_1) and s = sigmoid(gelu(mean(z) W_a) W_b)."""
    w_1, w_a, w_b, w_2 = (
        weight(layer.kernel) for layer in (mixer.inner, mixer.squeeze, mixer.excite, mixer.outer)
    )
    kernel = weight(mixer.kernel)
    h = gelu(x @ w_1)
    time, size = len(x), mixer.kernel_size
    z = np.zeros_like(h)
    for i in range(time):
        for j in range(size):
            m = i + j - (size - 1) // 2
            if 0 <= m < time and visible[i, m]:
                z[i] += kernel[:, j] * h[m]
    z = gelu(z)
    y = np.zeros_like(x)
    for i in range(time):
        if visible[i].any():
            squeezed = gelu(z[visible[i]].mean(0) @ w_a)
            y[i] = (z[i] / (1 + np.exp(-squeezed @ w_b))) @ w_2
    return y
