"""Attention."""

import math

import numpy as np

from tests.oracles.arithmetic import layer_norm, softmax, texts, weight


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


def attention(mixer, x, visible, prefix, right_to_left, bias, reachable=lambda offset: True):
    """softmax(q_i k_m + bias(h, m - i)) over the visible, reachable m, head by head.

    If causal, m goes up to i; with a prefix, m behind i has to be in it; from right to left, m starts at i.
    """
    time, dim = x.shape
    if mixer.causal or prefix is not None:
        earlier = np.tri(time, dtype=bool)
        visible = visible & (earlier if prefix is None else earlier | prefix)
    if right_to_left:
        visible = visible & np.tri(time, dtype=bool).T
    width = dim // mixer.num_heads
    queries, keys, values = (x @ weight(layer.kernel) for layer in (mixer.query, mixer.key, mixer.value))
    mixed = np.zeros([time, dim])
    for h in range(mixer.num_heads):
        part = slice(h * width, (h + 1) * width)
        for i in range(time):
            seen = [m for m in range(time) if visible[i, m] and reachable(m - i)]
            if seen:
                logits = [queries[i, part] @ keys[m, part] + bias(h, m - i) for m in seen]
                mixed[i, part] = softmax(np.array(logits)) @ values[seen, part]
    return mixed @ weight(mixer.output_projection.kernel)


def bucketed(mixer):
    """T5's bias: the table's entry of the offset's bucket."""
    table = weight(mixer.bias.table)
    return lambda h, offset: table[h, bucket(offset, mixer.causal)]


def self_attention(mixer, x, visible, prefix=None, right_to_left=False):
    """Attention to all positions."""
    return attention(mixer, x, visible, prefix, right_to_left, bucketed(mixer))


def local_attention(mixer, x, visible, prefix=None, right_to_left=False):
    """Attention to the positions that a convolution of w taps would meet."""
    size, rate = mixer.window_size, mixer.dilation_rate
    p = size - 1 if mixer.causal else (size - 1) // 2
    window = [rate * (j - p) for j in range(size)]
    return attention(
        mixer, x, visible, prefix, right_to_left, bucketed(mixer), lambda offset: offset in window
    )


def focal_attention(mixer, x, visible, prefix=None, right_to_left=False):
    """One softmax over single neighbours and over sums of windows, each as far as it may be seen."""
    time, dim = x.shape
    size, count = mixer.window_size, mixer.num_windows
    p = size - 1 if mixer.causal else (size - 1) // 2
    queries, keys, values = (x @ weight(layer.kernel) for layer in (mixer.query, mixer.key, mixer.value))
    earlier = np.tri(time, dtype=bool)
    if mixer.causal:
        visible = visible & earlier
    if prefix is not None:
        visible = visible & (earlier | prefix)
    if right_to_left:
        visible = visible & earlier.T
    mixed = np.zeros([time, dim])
    for part, h in zip(np.split(np.arange(dim), mixer.num_heads), range(mixer.num_heads), strict=True):
        for i in range(time):
            seen = []  # (positions, their weights, bias)
            for j in range(size):
                seen.append(([i + j - p], [1.0], weight(mixer.local_bias)[h, j]))
            scales = zip(mixer.pool_sizes, mixer.pool_weights, weight(mixer.window_bias), strict=True)
            for s, shares, bias in scales:
                starts = [i - s * (count - n) for n in range(count)]
                starts += [] if mixer.causal else [i + 1 + s * n for n in range(count)]
                for n, start in enumerate(starts):
                    seen.append((range(start, start + s), weight(shares), bias[h, n]))
            logits, sums = [], []
            for places, shares, bias in seen:
                found = [
                    (m, f) for m, f in zip(places, shares, strict=True) if 0 <= m < time and visible[i, m]
                ]
                if found:
                    logits.append(queries[i, part] @ sum(f * keys[m, part] for m, f in found) + bias)
                    sums.append(sum(f * values[m, part] for m, f in found))
            if logits:
                mixed[i, part] = softmax(np.array(logits)) @ np.array(sums)
    return mixed @ weight(mixer.output_projection.kernel)


def outlook_attention(mixer, x, visible):
    """Every window attends within itself by the weights of its middle; each position adds up its windows."""
    (time, dim), size = x.shape, mixer.window_size
    p = (size - 1) // 2
    values, logits = x @ weight(mixer.value.kernel), x @ weight(mixer.generator.kernel)
    folded = np.zeros([time, dim])
    for i, text in texts(visible):
        shares = softmax(logits[i].reshape(mixer.num_heads, size, size))
        for h, part in enumerate(np.split(np.arange(dim), mixer.num_heads)):
            unfolded = np.zeros([size, len(part)])
            for n in range(size):
                if i + n - p in text:
                    unfolded[n] = values[i + n - p, part]
            for j, given in enumerate(shares[h] @ unfolded):
                if i + j - p in text:
                    folded[i + j - p, part] += given
    return folded @ weight(mixer.output_projection.kernel)


def relative_attention(mixer, x, visible, prefix=None, right_to_left=False):
    """Attention to all positions, with a weight for each offset."""
    weights, middle = weight(mixer.offset_weights), mixer.max_sequence_length - 1
    return attention(mixer, x, visible, prefix, right_to_left, lambda h, offset: weights[h, middle + offset])


def external_attention(mixer, x, visible):
    """Softmax over the tokens of each slot's logits, then shares of the slots, then their values, by head."""
    tokens, has_heads = np.flatnonzero(visible[0]), mixer.memory_heads > 1
    u = x @ weight(mixer.query.kernel) if has_heads else x
    y = np.zeros_like(x)
    for part in np.split(np.arange(x.shape[1]), mixer.memory_heads):
        shares = softmax((u[np.ix_(tokens, part)] @ weight(mixer.memory_keys.kernel)).T).T  # [tokens,S]
        for row, i in zip(shares, tokens, strict=True):
            y[i, part] = row / (1e-9 + row.sum()) @ weight(mixer.memory_values.kernel)
    return y @ weight(mixer.output_projection.kernel) if has_heads else y


def linformer(mixer, x, visible):
    """softmax(q_i (E K)^T) F V, head by head; a text alone fills the first columns of E and F."""
    tokens = np.flatnonzero(visible[0])
    queries, keys, values = (x @ weight(layer.kernel) for layer in (mixer.query, mixer.key, mixer.value))
    summed_keys, summed_values = (
        sum(weight(sums)[:, j, None] * rows[j] for j in tokens)
        for sums, rows in ((mixer.key_sums, keys), (mixer.value_sums, values))
    )
    y = np.zeros_like(x)
    for part in np.split(np.arange(x.shape[1]), mixer.num_heads):
        for i in tokens:
            logits = [queries[i, part] @ row for row in summed_keys[:, part]]
            y[i, part] = softmax(np.array(logits)) @ summed_values[:, part]
    return y @ weight(mixer.output_projection.kernel)


def synthesizer(mixer, x, visible):
    """softmax(B) V with B of the mixture's modes, head by head, positions counted in the text."""
    time, dim = x.shape
    width = dim // mixer.num_heads
    values = x @ weight(mixer.value.kernel)
    shares = softmax(weight(mixer.mixture)) if len(mixer.modes) > 1 else [1.0]
    mixed = np.zeros([time, dim])
    for i, text in texts(visible):
        seen = [m for m in text if m <= i or not mixer.causal]
        for h in range(mixer.num_heads):
            part = slice(h * width, (h + 1) * width)
            logits = np.zeros(len(seen))
            for share, mode in zip(shares, mixer.modes, strict=True):
                score = _score(mixer, mode, x, h, part, i, text.index(i))
                logits += [share * score(m, text.index(m)) for m in seen]
            mixed[i, part] = softmax(logits) @ values[seen, part]
    return mixed @ weight(mixer.output_projection.kernel)


def _score(mixer, mode, x, h, part, i, q):
    """B[i, m] of a mode, as a function of m and its position p in the text; q is the position of i."""
    if mode == "attention":
        queries, keys = x @ weight(mixer.query.kernel), x @ weight(mixer.key.kernel)
        return lambda m, p: queries[i, part] @ keys[m, part]
    layer = mixer.scores[mode]
    if mode in ("random", "frozen_random"):
        return lambda m, p: weight(layer.table)[h, q, p]
    if mode == "factorized_random":
        return lambda m, p: weight(layer.left)[h, q] @ weight(layer.right)[h, p]
    hidden = np.maximum((x[i] @ weight(layer.hidden.kernel))[part], 0)
    if mode == "dense":
        return lambda m, p: (hidden @ weight(layer.kernel)[h])[p]
    a, b = hidden @ weight(layer.kernel_a)[h], hidden @ weight(layer.kernel_b)[h]
    return lambda m, p: a[p // len(b)] * b[p % len(b)]


def latent_attention(mixer, x, visible):
    """The latents of each text, LN(softmax(Q_0 K^T) V), then softmax(Q K_Z^T) V_Z of its positions."""
    time, dim = x.shape
    width = dim // mixer.num_heads
    queries, keys, values = (x @ weight(layer.kernel) for layer in (mixer.query, mixer.key, mixer.value))
    mixed = np.zeros([time, dim])
    for i, text in texts(visible):
        latents = np.zeros([mixer.num_latents, dim])
        for m in range(mixer.num_latents):
            for h in range(mixer.num_heads):
                part = slice(h * width, (h + 1) * width)
                logits = keys[text, part] @ weight(mixer.latent_queries)[m, h]
                latents[m, part] = softmax(logits) @ values[text, part]
        latents = layer_norm(latents) * weight(mixer.norm.gamma) + weight(mixer.norm.beta)
        latent_keys = latents @ weight(mixer.latent_key.kernel)
        latent_values = latents @ weight(mixer.latent_value.kernel)
        for h in range(mixer.num_heads):
            part = slice(h * width, (h + 1) * width)
            mixed[i, part] = softmax(latent_keys[:, part] @ queries[i, part]) @ latent_values[:, part]
    return mixed @ weight(mixer.output_projection.kernel)
