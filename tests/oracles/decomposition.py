"""Hamburger's matrix decomposition."""

import numpy as np

from tests.oracles.arithmetic import softmax, weight


def matrix_decomposition(mixer, x, visible):
    """D C W_u, as in the paper: columns are positions, D [d,r] and C [r,n] those of relu(W_l X) [d,n]."""
    tokens = np.flatnonzero(visible[0])
    columns = np.maximum(x[tokens] @ weight(mixer.input_projection.kernel), 0).T
    d = np.asarray(mixer.first_bases, "float64").T
    c = softmax((d.T @ columns).T).T
    epsilon = 1e-6

    def updated_c():
        return c * (d.T @ columns) / (d.T @ d @ c + epsilon)

    c = updated_c()
    for _ in range(mixer.num_steps):
        d = d * (columns @ c.T) / (d @ c @ c.T + epsilon)
        c = updated_c()
    y = np.zeros_like(x)
    y[tokens] = (d @ c).T @ weight(mixer.output_projection.kernel)
    return y
