"""The block with a gate on each side of a convolution."""

import numpy as np

from tests.oracles.arithmetic import weight


def double_gate(block, convolution, x, visible):
    """(C * conv(B * x W_I)) W_O, with B = x W_B and C = x W_C; `convolution` is the oracle of the mixer."""
    w_i, w_b, w_c = np.split(weight(block.gate.kernel), 3, axis=1)
    mixed = convolution(block.mixer, (x @ w_b) * (x @ w_i), visible)
    return ((x @ w_c) * mixed) @ weight(block.output_projection.kernel)
