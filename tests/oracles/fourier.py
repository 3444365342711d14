"""Fourier transforms."""

import numpy as np

from tests.oracles.arithmetic import texts


def fourier(mixer, x, visible):
    """(n D)^-1/2 sum_{m,e} cos(2 pi (k m / n + c e / D)) x[m, e], positions counted in the text."""
    dim = x.shape[1]
    y = np.zeros_like(x)
    for i, text in texts(visible):
        size = mixer.fixed_length or len(text)
        for c in range(dim):
            for p, m in enumerate(text):
                for e in range(dim):
                    y[i, c] += np.cos(2 * np.pi * (text.index(i) * p / size + c * e / dim)) * x[m, e]
        y[i] /= np.sqrt(size * dim) if mixer.normalize else 1
    return y
