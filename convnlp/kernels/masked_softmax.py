"""Attention weights from scores."""

import tensorflow as tf

from convnlp.kernels.compiled import compiled, float32, rounded
from convnlp.kernels.implementations import current_implementation

HIDDEN = -1e9  # the score of what must not be seen: finite, so that a row of nothing else has no NaN
_LANES = 16


def masked_softmax(scores, allowed=None):
    """Softmax over the last axis, in float32, with weight 0 where nothing may be seen.

        w[s] = exp(z[s] - max z) / sum exp(z - max z)        z[s] = scores[s] where allowed, else -1e9

    Where nothing in a row is allowed, its weights are equal.

    TensorFlow runs this in bfloat16 as five passes over the largest tensors of a decoder, and its gradient as
    seven. The fast form is one compiled loop each; its sums over a row go through 16 partial sums, which one
    instruction can add. Measured for [16,8,114,512] in bfloat16 on one core: 4.4 ms and 2.6 ms backwards,
    against 9 ms and 11 ms. In float32 TensorFlow's own softmax is faster.

    Args:
        scores: tensor [B,H,T,S], float.
        allowed: bool tensor that broadcasts to [B,H,T,S]. Defaults to all allowed.

    Returns:
        Tensor [B,H,T,S] of the type of scores.

    Example:
    >>> allowed = tf.constant([[[[True, True, False]]]])
    >>> masked_softmax(tf.constant([[[[0.0, 0.0, 5.0]]]]), allowed).numpy().tolist()
    [[[[0.5, 0.5, 0.0]]]]
    """
    scores = tf.convert_to_tensor(scores)
    if allowed is None:
        allowed = tf.ones([1, 1, 1, 1], tf.bool)
    if scores.dtype == tf.bfloat16 and current_implementation(scores) == "fast":
        return _fast(scores, allowed)
    return tf.cast(tf.nn.softmax(tf.where(allowed, float32(scores), HIDDEN)), scores.dtype)


def _fast(scores, allowed):
    @tf.custom_gradient
    def softmax(scores):
        weights = tf.ensure_shape(_forward(scores, allowed), scores.shape)

        def grad(dweights):
            return tf.ensure_shape(_backward(dweights, weights, allowed), scores.shape)

        return weights, grad

    return softmax(scores)


def _halves(x, combine):
    """[...,S] -> [...,1], or an odd number of partial results."""
    while x.shape[-1] is not None and x.shape[-1] % 2 == 0:
        half = x.shape[-1] // 2
        x = combine(x[..., :half], x[..., half:])
    return x


def _over_row(x, reduce, combine):
    """[...,S] -> [...,1], through 16 partial results if S has that factor."""
    if x.shape[-1] is None or x.shape[-1] % _LANES:
        return reduce(x, axis=-1, keepdims=True)
    lanes = tf.reshape(x, tf.concat([tf.shape(x)[:-1], [x.shape[-1] // _LANES, _LANES]], 0))
    return _halves(reduce(lanes, axis=-2), combine)


@compiled
def _forward(scores, allowed):
    seen = tf.where(allowed, float32(scores), HIDDEN)
    exponential = tf.exp(seen - _over_row(seen, tf.reduce_max, tf.maximum))
    total = _over_row(exponential, tf.reduce_sum, tf.add)  # [B,H,T,1]
    return rounded(exponential * (1.0 / total), scores.dtype)


@compiled
def _backward(dweights, weights, allowed):
    weights = float32(weights)
    product = weights * float32(dweights)
    total = tf.reduce_sum(_halves(product, tf.add), axis=-1, keepdims=True)  # [B,H,T,1]
    dscores = tf.where(allowed, product - weights * total, 0.0)  # matters to a row that sees nothing
    return rounded(dscores, dweights.dtype)
