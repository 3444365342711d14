"""Attention weights from scores."""

import tensorflow as tf

from convnlp.kernels.compiled import compiled, float32, island, rounded
from convnlp.kernels.implementations import current_implementation

# Added to masked scores: any score below 1e31 vanishes beside it, so the weight is zero however large the
# scores are. It is finite, so that a row that is masked throughout has no NaN.
_LOWEST = tf.float32.min


def masked_softmax(scores, allowed=None, bias=None):
    """Softmax over the last axis, in float32, with weight 0 for masked scores.

        w[s] = exp(z[s] - max z) / sum exp(z - max z)        z[s] = scores[s] + bias[s] if allowed, or lowest

    Masked scores get weight 0 whatever the scores are. If a whole row is masked, its weights are finite but
    undefined.

    TFLite may store constants in float16, which has no number below all scores. There, masked scores are
    replaced by the lowest score of the row, and their weights are zeroed and the others renormalised. This
    uses only products, because XNNPACK stops at a selection.

    In bfloat16, TensorFlow runs this as six passes over the largest tensors of a model, and its gradient as
    seven. The fast form has a compiled loop before TensorFlow's softmax and one after it, and one for the
    gradient. Measured for [64,4,128,128] in bfloat16 on two cores: 4.7 ms instead of 6.7. A softmax that is
    compiled as well takes 4.2 ms, but half as long again with rows of 512 or more.

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
        return _fast(scores, allowed, *([] if bias is None else [bias]))
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


def _fast(scores, allowed, *bias):
    @tf.custom_gradient
    def softmax(scores, *bias):
        seen = tf.ensure_shape(_seen(scores, allowed, *bias), scores.shape)
        weights = tf.ensure_shape(island(rounded, tf.nn.softmax(seen), dtype=scores.dtype), scores.shape)

        def grad(dweights):
            dscores = tf.ensure_shape(_backward(dweights, weights), scores.shape)
            return [dscores, *(tf.ensure_shape(_over_batch(dscores), each.shape) for each in bias)]

        return weights, grad

    return softmax(scores, *bias)


@compiled
def _seen(scores, allowed, bias=0.0):
    return tf.where(allowed, float32(scores) + bias, _LOWEST)


@compiled
def _backward(dweights, weights):
    weights = float32(weights)
    product = weights * float32(dweights)
    total = tf.reduce_sum(_halves(product), axis=-1, keepdims=True)  # [B,H,T,1]
    return rounded(product - weights * total, dweights.dtype)


@compiled
def _over_batch(dscores):
    return tf.reduce_sum(float32(dscores), axis=0)


def _halves(x):
    """Adds halves of the last axis while it is even: [...,S] -> [...,1], or an odd number of partial sums."""
    while x.shape[-1] is not None and x.shape[-1] % 2 == 0:
        half = x.shape[-1] // 2
        x = x[..., :half] + x[..., half:]
    return x
