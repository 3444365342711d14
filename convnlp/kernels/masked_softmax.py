"""Attention weights from scores."""

import tensorflow as tf

from convnlp.kernels.compiled import compiled, float32, rounded
from convnlp.kernels.implementations import current_implementation

# Added to masked scores: any score below 1e31 vanishes beside it, so the weight is zero however large the
# scores are. It is finite, so that a row that is masked throughout has no NaN.
_LOWEST = tf.float32.min
_LANES = 16


def masked_softmax(scores, allowed=None, bias=None):
    """Softmax over the last axis, in float32, with weight 0 for masked scores.

        w[s] = exp(z[s] - max z) / sum exp(z - max z)        z[s] = scores[s] + bias[s] if allowed, or lowest

    Masked scores get weight 0 whatever the scores are. If a whole row is masked, its weights are finite but
    undefined.

    TFLite may store constants in float16, which has no number below all scores. There, masked scores are
    replaced by the lowest score of the row, and their weights are zeroed and the others renormalised. This
    uses only products, because XNNPACK stops at a selection.

    In bfloat16, TensorFlow runs this as five passes over the largest tensors of a decoder, and its gradient
    as seven. The fast form is one compiled loop for each; its sums over a row use 16 partial sums, which one
    instruction can add. Measured for [16,8,114,512] in bfloat16 on one core: 4.4 ms and 2.6 ms backwards,
    against 9 ms and 11 ms. In float32, TensorFlow's own softmax is faster.

    Args:
        scores: tensor [..., S], float; attention has [B,H,T,S].
        allowed: bool tensor that broadcasts to the scores, False = masked. Defaults to all allowed.
        bias: float32 tensor [...,S], the scores' shape without the batch axis. Defaults to no bias.

    Returns:
        Tensor of the shape and dtype of `scores`.

    Example:
    >>> allowed = tf.constant([[[[True, True, False]]]])
    >>> masked_softmax(tf.constant([[[[0.0, 0.0, 5.0]]]]), allowed).numpy().tolist()
    [[[[0.5, 0.5, 0.0]]]]
    """
    scores = tf.convert_to_tensor(scores)
    form = current_implementation(scores)
    if scores.dtype == tf.bfloat16 and form == "fast":
        allowed = tf.ones([1] * scores.shape.rank, tf.bool) if allowed is None else allowed
        return _fast(scores, allowed) if bias is None else _fast_with_bias(scores, allowed, bias)
    wide = float32(scores) if bias is None else float32(scores) + bias
    if allowed is None:
        return tf.cast(tf.nn.softmax(wide), scores.dtype)
    if form == "edge":
        return tf.cast(_by_products(wide, float32(allowed)), scores.dtype)
    # A sum, because the gradient of a selection would be a pass over all scores.
    return tf.cast(tf.nn.softmax(wide + tf.where(allowed, 0.0, _LOWEST)), scores.dtype)


def _by_products(scores, allowed):
    """Returns the softmax of float32 scores with a mask of 1 and 0."""
    lowest = tf.reduce_min(scores, axis=-1, keepdims=True)
    weights = tf.nn.softmax(scores * allowed + lowest * (1.0 - allowed)) * allowed
    total = tf.reduce_sum(weights, axis=-1, keepdims=True)
    return weights / tf.maximum(total, 1e-6)  # the total is at least 1 / S if anything is allowed


def _fast(scores, allowed):
    @tf.custom_gradient
    def softmax(scores):
        weights = tf.ensure_shape(_forward(scores, allowed), scores.shape)

        def grad(dweights):
            return tf.ensure_shape(_backward(dweights, weights), scores.shape)

        return weights, grad

    return softmax(scores)


def _fast_with_bias(scores, allowed, bias):
    @tf.custom_gradient
    def softmax(scores, bias):
        weights = tf.ensure_shape(_forward(scores, allowed, bias), scores.shape)

        def grad(dweights):
            dscores = tf.ensure_shape(_backward(dweights, weights), scores.shape)
            return dscores, tf.ensure_shape(_over_batch(dscores), bias.shape)

        return weights, grad

    return softmax(scores, bias)


def _halves(x, combine):
    """Halves the last axis while it is even: [...,S] -> [...,1], or an odd number of partial results."""
    while x.shape[-1] is not None and x.shape[-1] % 2 == 0:
        half = x.shape[-1] // 2
        x = combine(x[..., :half], x[..., half:])
    return x


def _over_row(x, reduce, combine):
    """Reduces [...,S] to [...,1], through 16 partial results if S is a multiple of 16."""
    if x.shape[-1] is None or x.shape[-1] % _LANES:
        return reduce(x, axis=-1, keepdims=True)
    lanes = tf.reshape(x, tf.concat([tf.shape(x)[:-1], [x.shape[-1] // _LANES, _LANES]], 0))
    return _halves(reduce(lanes, axis=-2), combine)


@compiled
def _forward(scores, allowed, bias=0.0):
    seen = tf.where(allowed, float32(scores) + bias, _LOWEST)
    exponential = tf.exp(seen - _over_row(seen, tf.reduce_max, tf.maximum))
    total = _over_row(exponential, tf.reduce_sum, tf.add)  # [B,H,T,1]
    return rounded(exponential * (1.0 / total), scores.dtype)


@compiled
def _backward(dweights, weights):
    weights = float32(weights)
    product = weights * float32(dweights)
    total = tf.reduce_sum(_halves(product, tf.add), axis=-1, keepdims=True)  # [B,H,T,1]
    return rounded(product - weights * total, dweights.dtype)


@compiled
def _over_batch(dscores):
    return tf.reduce_sum(float32(dscores), axis=0)
