"""Mixing with learned weights for positions: ResMLP, gMLP, MLP-Mixer, the feed-forward stack."""

import numpy as np

from tests.oracles.arithmetic import gelu, layer_norm, softmax, texts, weight


def position_matrix(matrix, x, visible):
    """y[i] = sum_m W[i, m] x[m] + b[i], with positions counted in the text; Toeplitz: W[i, m] = w[m - i].

    Of several heads, each with a block of channels, W and b are those of the head.
    """
    kernel, bias = weight(matrix.kernel), weight(matrix.bias)
    if matrix.num_heads == 1:
        kernel, bias = kernel[..., np.newaxis], bias[..., np.newaxis]
    y = np.zeros_like(x)
    for h, block in enumerate(np.split(np.arange(x.shape[1]), matrix.num_heads)):
        for i, text in texts(visible):
            q = text.index(i)
            y[i, block] += bias[h] if matrix.toeplitz else bias[q, h]
            for p, m in enumerate(text):
                if matrix.causal and m > i:
                    continue
                if not matrix.toeplitz:
                    y[i, block] += kernel[q, p, h] * x[m, block]
                elif abs(p - q) < matrix.max_sequence_length:
                    y[i, block] += kernel[p - q + matrix.max_sequence_length - 1, h] * x[m, block]
    return y


def res_mlp(mixer, x, visible):
    """s * (A Aff(x) + b)."""
    if not mixer.affine:
        return position_matrix(mixer.matrix, x, visible)
    affine = x * weight(mixer.scale) + weight(mixer.offset)
    return position_matrix(mixer.matrix, affine, visible) * weight(mixer.layer_scale)


def spatial_gating(mixer, x, visible):
    """(Z1 * (W LN(Z2) + b + attention)) V."""
    z = gelu(x @ weight(mixer.input_projection.kernel))
    half = mixer.intermediate_dim // 2
    normed = layer_norm(z[:, half:]) * weight(mixer.norm.gamma) + weight(mixer.norm.beta)
    gate = position_matrix(mixer.matrix, normed, visible)
    if mixer.tiny_attention_dim:
        layer = mixer.attention
        queries, keys, values = (x @ weight(part.kernel) for part in (layer.query, layer.key, layer.value))
        for i, text in texts(visible):
            seen = [m for m in text if m <= i or not mixer.causal]
            attended = softmax(keys[seen] @ queries[i]) @ values[seen]
            gate[i] += attended @ weight(layer.output_projection.kernel)
    return (z[:, :half] * gate) @ weight(mixer.output_projection.kernel)


def token_mlp(mlp, column, tokens):
    """W2 gelu(W1 x + b1) + b2 of one channel, at the tokens."""
    hidden = weight(mlp.bias_1)
    for m in tokens:
        hidden = hidden + weight(mlp.kernel_1)[:, m] * column[m]
    y = np.zeros_like(column)
    for i in tokens:
        y[i] = weight(mlp.kernel_2)[i] @ gelu(hidden) + weight(mlp.bias_2)[i]
    return y


def mlp_mixer(mixer, x, visible):
    """The token MLP on every channel."""
    tokens = np.flatnonzero(visible[0])
    return np.stack([token_mlp(mixer.mlp, column, tokens) for column in x.T], 1)


def feed_forward_stack(mixer, x, visible):
    """The norm over the tokens, then the token MLP, on every channel."""
    tokens = np.flatnonzero(visible[0])
    columns = []
    for column in x.T:
        normed = np.zeros_like(column)
        normed[tokens] = layer_norm(column[tokens])
        normed[tokens] = normed[tokens] * weight(mixer.scale)[tokens] + weight(mixer.offset)[tokens]
        columns.append(token_mlp(mixer.mlp, normed, tokens))
    return np.stack(columns, 1)
