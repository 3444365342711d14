"""Linear attention."""

import numpy as np

from tests.oracles.arithmetic import weight
from tests.oracles.convolutions import dilated_conv


def features(u):
    """[1, u, vec(u u^T) / sqrt(2)]."""
    return np.concatenate([[1.0], u, np.outer(u, u).ravel() / np.sqrt(2)])


def linear_attention(mixer, x, visible, prefix=None, right_to_left=False):
    """S = sum_j phi(k_j) v_j^T and z = sum_j phi(k_j) of what i sees; S^T phi(q_i) / z^T phi(q_i), gated."""
    time, dim = x.shape
    convolved = dilated_conv(mixer.convolution, x, visible, prefix, right_to_left)
    queries, keys = (convolved @ weight(layer.kernel) for layer in (mixer.query, mixer.key))
    values = x @ weight(mixer.value.kernel)
    mixed = np.zeros([time, dim])
    for h in range(mixer.num_heads):
        compared = slice(h * mixer.feature_dim, (h + 1) * mixer.feature_dim)
        part = slice(h * dim // mixer.num_heads, (h + 1) * dim // mixer.num_heads)
        for i in range(time):
            sums, total = 0.0, 0.0
            for j in range(time):
                if mixer.causal or prefix is not None:
                    ahead = j > i and (mixer.causal or not prefix[j])
                else:
                    ahead = False
                if visible[i, j] and not ahead and not (right_to_left and j < i):
                    phi = features(keys[j, compared])
                    sums += np.outer(phi, values[j, part])
                    total += phi
            if np.any(total):
                phi = features(queries[i, compared])
                mixed[i, part] = phi @ sums / (phi @ total)
    gate = x @ weight(mixer.gate.kernel)
    return mixed * gate / (1 + np.exp(-gate)) @ weight(mixer.output_projection.kernel)
