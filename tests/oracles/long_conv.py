"""The long convolution with damped cosines."""

import numpy as np

from tests.oracles.arithmetic import weight
from tests.oracles.convolutions import gelu


def gated_long_conv(mixer, x, visible, prefix=None, right_to_left=False):
    """(g * sum_j t[i - j] u_j) W_O with t[l] = sum_s a_s exp(-lambda_s |l|) cos(omega_s l)."""
    time, dim = x.shape
    sides = 1 if mixer.causal else 2
    shape = (sides, mixer.num_heads, mixer.num_waves)
    log_decay, frequency, amplitude = (
        weight(vector).reshape(shape) for vector in (mixer.log_decay, mixer.frequency, mixer.amplitude)
    )
    kernel = weight(mixer.input_projection.kernel)
    u, g = gelu(x @ kernel[:, :dim]), gelu(x @ kernel[:, dim:])
    mixed = np.zeros([time, dim])
    for i in range(time):
        for j in range(time):
            ahead = j > i
            if right_to_left and j < i:
                continue
            if not visible[i, j] or (ahead and (mixer.causal or (prefix is not None and not prefix[j]))):
                continue
            side, distance = int(ahead), abs(i - j)
            for h in range(mixer.num_heads):
                tap = 0.0
                for s in range(mixer.num_waves):
                    fallen = np.exp(-np.exp(log_decay[side, h, s]) * distance)
                    tap += amplitude[side, h, s] * fallen * np.cos(frequency[side, h, s] * distance)
                part = slice(h * dim // mixer.num_heads, (h + 1) * dim // mixer.num_heads)
                mixed[i, part] += tap * u[j, part]
    return (g * mixed) @ weight(mixer.output_projection.kernel)
