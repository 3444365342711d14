"""A linear classifier on vectors that do not change: softmax regression, fitted in seconds."""

import numpy as np
import tensorflow as tf

NUM_STEPS = 300
_LEARNING_RATE = 0.1
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8  # of Adam


def fit(features, labels, num_classes, penalties, num_steps=NUM_STEPS):
    """Minimises mean_n CE(W z_n + b, y_n) + penalty / 2 |W|^2 over W and b.

    z is x, shifted and scaled to mean 0 and variance 1. By Adam on all examples at once, its rate falling to
    0 along a cosine; each penalty starts from the solution of the one before it. The problem is convex, so
    no seed and no order of examples plays a part.

    Args:
        features: float [N,D], x. A feature that is the same everywhere takes no part.
        labels: int [N], y, each in [0, num_classes).
        num_classes: int, C.
        penalties: sequence of float, at least 0.
        num_steps: int, for each penalty.

    Returns:
        list of pairs, one per penalty: float32 [D,C] and [C], which take x as it is.
    """
    features = np.asarray(features, "float64")
    mean, deviation = features.mean(0), features.std(0)
    scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 1e-6)
    z = tf.constant((features - mean) * scale, tf.float32)
    targets = tf.one_hot(labels, num_classes)
    shape = [features.shape[1] + 1, num_classes]  # the bias is the last row
    state = [tf.zeros(shape)] * 3
    found = []
    for penalty in penalties:
        state = [state[0], tf.zeros(shape), tf.zeros(shape)]
        weights, *_ = state = _minimise(z, targets, tf.constant(penalty, tf.float32), num_steps, *state)
        kernel, bias = weights.numpy()[:-1].astype("float64"), weights.numpy()[-1]
        kernel *= scale[:, None]
        found.append((kernel.astype("float32"), (bias - mean @ kernel).astype("float32")))
    return found


@tf.function(reduce_retracing=True)
def _minimise(z, targets, penalty, num_steps, weights, moment, square):
    num_examples = tf.cast(tf.shape(z)[0], tf.float32)
    for step in tf.range(1, num_steps + 1):
        done = tf.cast(step, tf.float32)
        error = (tf.nn.softmax(z @ weights[:-1] + weights[-1]) - targets) / num_examples  # [N,C]
        gradient = tf.concat(
            [tf.matmul(z, error, transpose_a=True) + penalty * weights[:-1], tf.reduce_sum(error, 0)[None]], 0
        )
        moment = _BETA_1 * moment + (1 - _BETA_1) * gradient
        square = _BETA_2 * square + (1 - _BETA_2) * gradient**2
        rate = _LEARNING_RATE * (1 + tf.cos(np.pi * done / tf.cast(num_steps, tf.float32))) / 2
        update = moment / (1 - _BETA_1**done) / (tf.sqrt(square / (1 - _BETA_2**done)) + _EPSILON)
        weights -= rate * update
    return weights, moment, square
