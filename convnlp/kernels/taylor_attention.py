"""Linear attention: weights that are products of features, so that sums over keys can be stored."""

import tensorflow as tf

from convnlp.kernels.project import project
from convnlp.kernels.shifts import length, pad_time, visible_pairs

# Positions that meet pair by pair. Up to here, that is faster than features: for B = 16, H = d = 8, E = 32 on
# one thread with the gradients, 30 ms against 38 ms at T = 128, and 266 ms against 146 ms at T = 512.
BLOCK = 128
# Each visible key has at least this weight, so a smaller total is rounding, or no key was visible.
_LEAST_WEIGHT = 0.5


def taylor_attention(
    queries, keys, values, padding_mask=None, segment_ids=None, prefix_mask=None, causal=False
):
    """Attention with the second-order Taylor series of the exponential.

        y[i] = sum_j w(q[i] . k[j]) v[j] / sum_j w(q[i] . k[j])
        w(s) = 1 + s + s^2 / 2 = phi(q)^T phi(k)             phi(u) = [1, u, vec(u u^T) / sqrt(2)]

    The sums are over the positions j that i may see. All arithmetic is in float32.

    Up to 128 positions, each query meets each key. Longer rows with no masks but pads need two products with
    the features: sum_j phi(k[j]) v[j]^T, and phi(q) times that. If they are causal or packed or have a
    prefix, they are cut into blocks of 128. Within a block, each query meets each key; for positions before
    and after the block, it uses the sums of their blocks, which only include keys of the text that reaches
    into its own. Nothing is subtracted, so masked keys leave no trace, however large they are.

    u u^T is symmetric, so d (d + 1) / 2 of its entries suffice, without the factor off the diagonal. They are
    the elementwise product of two matrix products with zeros and ones. With the gradients, this takes a fifth
    to a third less time than a gather, or than all d^2 entries.

    Args:
        queries: float tensor [B,T,H,d].
        keys: tensor [B,T,H,d].
        values: tensor [B,T,H,E], finite at pads.
        padding_mask: bool tensor [B,T], True = token. Defaults to no pads.
        segment_ids: int32 tensor [B,T]; positions with equal ids see each other. Each segment is one run of
            equal ids. Defaults to one segment.
        prefix_mask: bool tensor [B,T], True = prefix. If given, position i sees j <= i, and the prefix.
        causal: bool. Whether a position sees only itself and earlier ones. Defaults to `False`.

    Returns:
        Tensor [B,T,H,E] of the dtype of `values`, zero where no key is visible.

    Example:
    >>> x = tf.constant([[[[1.0]], [[2.0]], [[6.0]]]])
    >>> taylor_attention(tf.zeros_like(x), x, x)[0, :, 0, 0].numpy().tolist()
    [3.0, 3.0, 3.0]
    >>> taylor_attention(tf.zeros_like(x), x, x, causal=True)[0, :, 0, 0].numpy().tolist()
    [1.0, 1.5, 3.0]
    """
    queries, keys = _heads_first(queries), _heads_first(keys)
    summed = _with_ones(_heads_first(values), padding_mask)
    time = queries.shape[2]
    if time is not None and time <= BLOCK:
        pairs = visible_pairs(time, segment_ids, prefix_mask, causal)
        sums = _meet(queries, keys, summed, pairs)
    elif causal or segment_ids is not None or prefix_mask is not None:
        sums = _in_blocks(queries, keys, summed, segment_ids, prefix_mask, causal)
    else:
        sums = tf.matmul(taylor_features(queries), _memory(keys, summed))
    return _quotient(sums, values.dtype)


def taylor_attention_step(queries, keys, values, memory):
    """Computes the causal `taylor_attention` for the next C positions.

    Args:
        queries: tensor [B,C,H,d].
        keys: tensor [B,C,H,d].
        values: tensor [B,C,H,E].
        memory: float32 tensor [B,H,F,E+1], sum_j phi(k[j]) [v[j], 1]^T over all earlier positions.

    Returns:
        Tensor [B,C,H,E] of the dtype of `values`, and the memory including the chunk.
    """
    queries, keys = _heads_first(queries), _heads_first(keys)
    summed = _with_ones(_heads_first(values), None)
    pairs = visible_pairs(length(queries, 2), causal=True)
    sums = _meet(queries, keys, summed, pairs) + tf.matmul(taylor_features(queries), memory)
    return _quotient(sums, values.dtype), memory + _memory(keys, summed)


def taylor_memory_shape(num_heads, feature_dim, value_dim):
    """Returns the shape [H,F,E+1] of the memory of a row, with F = 1 + d + d (d + 1) / 2 features."""
    return [num_heads, 1 + feature_dim + feature_dim * (feature_dim + 1) // 2, value_dim + 1]


def taylor_attention_cost(time, num_heads, feature_dim, value_dim, causal):
    """Returns the multiply-adds of `taylor_attention` for a row of `time` positions without masks, an int."""
    _, num_features, num_sums = taylor_memory_shape(num_heads, feature_dim, value_dim)
    of_a_pair = feature_dim + num_sums + 1  # one for the series
    if time <= BLOCK:
        return num_heads * time**2 * of_a_pair
    if causal:
        time = -(-time // BLOCK) * BLOCK
    features = feature_dim**2 * (feature_dim + 1)  # two products with d (d + 1) / 2 columns
    of_a_position = 2 * (features + num_features * num_sums) + (BLOCK * of_a_pair if causal else 0)
    return num_heads * time * of_a_position


def taylor_features(u):
    """Returns features whose inner product is 1 + s + s^2 / 2, where s is that of the vectors.

    Args:
        u: float32 tensor [...,d].

    Returns:
        Tensor [...,1+d+d(d+1)/2].

    Example:
    >>> q, k = taylor_features(tf.constant([[1.0, 2.0], [3.0, -1.0]])).numpy()
    >>> round(float(q @ k), 4)  # 1 + 1 + 1 / 2
    2.5
    """
    first, second = _pairs_of_channels(u.shape[-1])
    return tf.concat([tf.ones_like(u[..., :1]), u, project(u, first) * project(u, second)], axis=-1)


def _pairs_of_channels(dim):
    """Returns two matrices [d,d(d+1)/2] that select channels a and b of each pair a <= b.

    The first one includes the factor of their product.
    """
    pairs = [(a, b) for a in range(dim) for b in range(a, dim)]
    first = [[(0.5**0.5 if a == b else 1.0) * (a == c) for a, b in pairs] for c in range(dim)]
    return tf.constant(first), tf.constant([[float(b == c) for _, b in pairs] for c in range(dim)])


def _heads_first(x):
    """[B,T,H,d] -> float32 [B,H,T,d]."""
    return tf.transpose(tf.cast(x, tf.float32), [0, 2, 1, 3])


def _with_ones(values, padding_mask):
    """[B,H,T,E] -> [B,H,T,E+1], zero at pads: in the last column, the weights are summed."""
    ones = tf.ones_like(values[..., :1])
    if padding_mask is None:
        return tf.concat([values, ones], axis=-1)
    tokens = tf.expand_dims(tf.expand_dims(tf.cast(padding_mask, tf.float32), 1), 3)  # [B,1,T,1]
    return tf.concat([values, ones], axis=-1) * tokens


def _memory(keys, summed):
    """Returns sum_j phi(k[j]) summed[j]^T: [...,T,d] and [...,T,E+1] -> [...,F,E+1]."""
    return tf.matmul(taylor_features(keys), summed, transpose_a=True)


def _meet(queries, keys, summed, pairs):
    """Returns sum_j w(q[i] . k[j]) summed[j] over all pairs, or `visible_pairs`: [B,H,...,T,E+1]."""
    product = tf.matmul(queries, keys, transpose_b=True)  # [...,T,T]
    weights = 0.5 * tf.square(product + 1.0) + 0.5  # 1 + s + s^2 / 2, but never negative by rounding
    if pairs is not None:
        pairs = tf.cast(pairs, tf.float32)
        weights *= pairs if pairs.shape.rank == 2 else tf.expand_dims(pairs, 1)
    return tf.matmul(weights, summed)


def _quotient(sums, dtype):
    """Divides by the sums of the weights: [B,H,T,E+1] -> [B,T,H,E]."""
    mixed = sums[..., :-1] / tf.maximum(sums[..., -1:], _LEAST_WEIGHT)
    return tf.cast(tf.transpose(mixed, [0, 2, 1, 3]), dtype)


def _in_blocks(queries, keys, summed, segment_ids, prefix_mask, causal):
    """Like `_meet`, with these masks, in N blocks of C positions: [B,H,T,...] -> [B,H,T,E+1]."""
    time = length(queries, 2)
    num_blocks = -(-time // BLOCK)
    rest = num_blocks * BLOCK - time

    def blocks(x):
        """[B,T,...] -> [B,N,C,...], padded with zeros at the end."""
        return tf.reshape(pad_time(x, 0, rest), [length(x, 0), num_blocks, BLOCK, *x.shape[2:]])

    def blocks_of_heads(x):
        """[B,H,T,...] -> [B,H,N,C,...]."""
        padded = tf.pad(x, [[0, 0], [0, 0], [0, rest], [0, 0]])
        return tf.reshape(padded, [length(x, 0), x.shape[1], num_blocks, BLOCK, x.shape[3]])

    queries, keys, summed = (blocks_of_heads(x) for x in (queries, keys, summed))
    segments = None if segment_ids is None else blocks(tf.convert_to_tensor(segment_ids))  # [B,N,C]
    prefix = None if prefix_mask is None else blocks(tf.convert_to_tensor(prefix_mask))  # [B,N,C]
    pairs = visible_pairs(BLOCK, segments, prefix, causal)  # [B,N,C,C] or [C,C]
    sums = _meet(queries, keys, summed, pairs)
    query_features, key_features = taylor_features(queries), taylor_features(keys)

    def from_other_blocks(summed, backwards):
        """Returns the contribution of the blocks before, or after: [B,H,N,C,E+1]."""
        if segments is None:
            memories = tf.matmul(key_features, summed, transpose_a=True)  # [B,H,N,F,E+1]
            return tf.matmul(query_features, tf.cumsum(memories, 2, exclusive=True, reverse=backwards))
        # A text that reaches from one block into another fills the near ends of both and all blocks between.
        first, last = segments[..., :1], segments[..., -1:]  # [B,N,1]
        entered, left = (last, first) if backwards else (first, last)
        leaves, enters = (_per_position(segments == end) for end in (left, entered))  # [B,1,N,C,1]
        memories = tf.matmul(key_features, summed * leaves, transpose_a=True)  # [B,H,N,F,E+1]
        order = tf.range(num_blocks) * (-1 if backwards else 1)
        earlier = order < tf.expand_dims(order, 1)  # [N,N]
        reaches = earlier & (entered == tf.transpose(left, [0, 2, 1]))  # [B,N,N]
        shape = tf.shape(memories)
        flat = tf.reshape(memories, tf.concat([shape[:3], [memories.shape[3] * memories.shape[4]]], 0))
        flat = tf.matmul(tf.expand_dims(tf.cast(reaches, tf.float32), 1), flat)  # [B,H,N,F*(E+1)]
        return tf.matmul(query_features, tf.reshape(flat, shape)) * enters

    sums += from_other_blocks(summed, backwards=False)
    if not causal:
        seen = summed if prefix is None else summed * _per_position(prefix)
        sums += from_other_blocks(seen, backwards=True)
    shape = tf.shape(sums)
    flat = tf.reshape(sums, [shape[0], sums.shape[1], num_blocks * BLOCK, sums.shape[4]])
    return flat[:, :, :time]  # [B,H,T,E+1]


def _per_position(mask):
    """Bool [B,N,C] -> float32 [B,1,N,C,1]."""
    return tf.expand_dims(tf.expand_dims(tf.cast(mask, tf.float32), 1), 4)
