"""MUSE."""

import numpy as np

from tests.oracles.arithmetic import softmax, weight
from tests.oracles.attention import self_attention
from tests.oracles.convolutions import dynamic_conv


def muse(mixer, x, visible, prefix=None, right_to_left=False):
    """Attention, gated dynamic convolutions of the attention's values, and relu(x W_1) W_2, added."""
    values = x @ weight(mixer.attention.value.kernel)
    local = np.zeros_like(x)
    if mixer.kernel_sizes:
        for share, convolution in zip(softmax(weight(mixer.gate)), mixer.convolutions, strict=True):
            local += share * dynamic_conv(convolution, values, visible, prefix, right_to_left)
        local = local @ weight(mixer.conv_projection.kernel)
    inner = np.maximum(x @ weight(mixer.feed_forward.inner.kernel), 0)
    return (
        self_attention(mixer.attention, x, visible, prefix, right_to_left)
        + local
        + inner @ weight(mixer.feed_forward.outer.kernel)
    )
