"""The mixing operations in TensorFlow's own ops, differentiated by TensorFlow.

A form is a function `form(x, taps, left, dilation_rate)` with x [B,T,D] and taps [H,K], or [B,T,H,K] if
each position has its own.
"""

import tensorflow as tf

from benchmarks import machine
from convnlp import kernels


def depthwise_conv2d(x, taps, left, dilation_rate):
    """Computes tf.nn.depthwise_conv2d with time as the width axis."""
    kernel_size = taps.shape[1]
    reach = [left * dilation_rate, (kernel_size - 1 - left) * dilation_rate]
    image = tf.pad(x[:, tf.newaxis], [[0, 0], [0, 0], reach, [0, 0]])  # [B,1,T+(K-1)*r,D]
    filters = tf.reshape(_by_channel(x, taps), [1, kernel_size, -1, 1])  # [1,K,D,1]
    dilations = [dilation_rate, dilation_rate]
    return tf.nn.depthwise_conv2d(image, filters, [1, 1, 1, 1], "VALID", dilations=dilations)[:, 0]


def convolution(x, taps, left, dilation_rate):
    """Computes tf.nn.convolution with one group per channel."""
    kernel_size = taps.shape[1]
    reach = [left * dilation_rate, (kernel_size - 1 - left) * dilation_rate]
    filters = _by_channel(x, taps)[:, tf.newaxis]  # [K,1,D]
    return tf.nn.convolution(tf.pad(x, [[0, 0], reach, [0, 0]]), filters, padding="VALID")


def _by_channel(x, taps):
    return tf.repeat(tf.transpose(taps), x.shape[-1] // taps.shape[0], axis=1)  # [K,D]


def shifts(x, taps, left, dilation_rate):
    """Computes K shifted multiply-adds: convnlp's plain form."""
    conv = kernels.depthwise_conv if taps.shape.rank == 2 else kernels.dynamic_conv
    with kernels.implementation("plain"):
        return conv(x, taps, dilation_rate, causal=left == taps.shape[-1] - 1)


def candidates(x, logits, dy, softmax, left, dilation_rate, dtype, backward):
    """Like `pytorch_kernels.candidates`, for TensorFlow and, under the name "convnlp", for our kernels."""

    def ours(x, logits, padding_mask):
        causal = left == logits.shape[-1] - 1
        x = kernels.zero_pads(x, padding_mask)  # as the layers do
        if logits.shape.rank == 4:  # the kernel computes the softmax too
            return kernels.dynamic_conv(x, logits, dilation_rate, causal, softmax=softmax)
        taps = tf.cast(tf.nn.softmax(logits) if softmax else logits, x.dtype)
        return kernels.depthwise_conv(x, taps, dilation_rate, causal)

    def in_steps(form):
        def forward(x, logits, mask):
            taps = tf.nn.softmax(tf.cast(logits, tf.float32)) if softmax else logits
            return form(x * mask, tf.cast(taps, x.dtype), left, dilation_rate)

        return forward

    def candidate(forward, mask, jit_compile=None):
        def both(x, logits, mask, dy):
            with tf.GradientTape() as tape:
                tape.watch([x, logits])
                y = forward(x, logits, mask)
            return tape.gradient(y, [x, logits], dy)

        arguments = (x, logits, mask, dy) if backward else (x, logits, mask)
        function = tf.function(both if backward else forward, autograph=False, jit_compile=jit_compile)
        return lambda: function(*arguments)

    x, dy = tf.cast(x, dtype), tf.cast(dy, dtype)
    # As in the layers, shared taps are float32 weights, and generated taps have the compute dtype.
    logits = tf.cast(logits, tf.float32 if logits.ndim == 2 else dtype)
    # Each form gets the mask as the type that is fastest for it.
    tokens, factors = tf.ones(x.shape[:2], tf.bool), tf.ones([*x.shape[:2], 1], dtype)

    found = {"convnlp": candidate(ours, tokens)}
    if logits.shape.rank == 2:
        found["depthwise_conv2d"] = candidate(in_steps(depthwise_conv2d), factors)
        # TensorFlow has no gradient of a grouped convolution on CPUs. oneDNN has one, but not with
        # dilation, nor in bfloat16 on a processor without AVX-512.
        if dilation_rate == 1 and (dtype != "bfloat16" or machine.has_flag("avx512f")):
            found["convolution"] = candidate(in_steps(convolution), factors)
    else:
        found["shifts"] = candidate(in_steps(shifts), factors)
        found["shifts, jit_compile"] = candidate(in_steps(shifts), factors, jit_compile=True)
    return found
