"""The cross-entropy of a large softmax."""

import functools

import tensorflow as tf

from convnlp.kernels.compiled import as_rows, compiled, float32, rounded
from convnlp.kernels.implementations import current_implementation

_LANES = 1024


def cross_entropy(logits, targets):
    """Returns the negative log-probability of each target, computed in float32.

        loss = log sum_v exp(z[v]) - z[target]        d loss / d z[v] = softmax(z)[v] - [v = target]

    TensorFlow casts the logits to float32 and writes the softmax and its gradient, and with deterministic
    operations also the log-softmax and a scattered copy: float32 tensors [N,V], tens of megabytes each. The
    fast form only keeps the logits, in their own dtype, and one number per row, and computes the gradient
    from them in one compiled loop. Measured for N = 1824, V = 8192 in bfloat16 on one core: 5.3 ms, 10.3 ms
    with the gradient, against 17 ms and 64 ms.

    Args:
        logits: tensor [...,V], float.
        targets: int32 tensor [...], each in [0, V).

    Returns:
        Float32 tensor [...].

    Example:
    >>> round(cross_entropy(tf.math.log([0.25, 0.75]), tf.constant(1)).numpy().item(), 4)
    0.2877
    """
    logits = tf.convert_to_tensor(logits)
    if current_implementation(logits) == "fast":
        return _fast(logits, targets)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(targets, float32(logits))


def _fast(logits, targets):
    @tf.custom_gradient
    def loss(logits):
        rows, flat_targets = as_rows(logits), tf.reshape(targets, [-1])  # [N,V], [N]
        log_sum = _log_sum(rows)
        losses = log_sum - float32(tf.gather(rows, flat_targets, batch_dims=1))

        def grad(dlosses):
            drows = _backward(tf.reshape(dlosses, [-1]), rows, flat_targets, log_sum)
            return tf.ensure_shape(tf.reshape(drows, tf.shape(logits)), logits.shape)

        return tf.ensure_shape(tf.reshape(losses, tf.shape(targets)), targets.shape), grad

    return loss(logits)


def _over_row(x, reduce, combine):
    """Reduces [N,V] to [N,1]. Combines wide lanes first, because XLA reduces a row number by number."""
    lanes = [x[:, start : start + _LANES] for start in range(0, x.shape[1] - _LANES + 1, _LANES)]
    rest = x[:, len(lanes) * _LANES :]
    parts = [functools.reduce(combine, lanes)] if lanes else []
    parts += [rest] if rest.shape[1] else []
    return functools.reduce(combine, [reduce(part, axis=1, keepdims=True) for part in parts])


@compiled
def _log_sum(rows):
    """Returns log sum exp of each row: [N,V] -> [N]."""
    rows = float32(rows)
    largest = _over_row(rows, tf.reduce_max, tf.maximum)
    return (largest + tf.math.log(_over_row(tf.exp(rows - largest), tf.reduce_sum, tf.add)))[:, 0]


@compiled
def _backward(dlosses, rows, targets, log_sum):
    dlosses, log_sum, targets = (tf.expand_dims(value, 1) for value in (dlosses, log_sum, targets))
    hit = float32(tf.equal(tf.range(rows.shape[1]), targets))
    return rounded((tf.exp(float32(rows) - log_sum) - hit) * dlosses, rows.dtype)
