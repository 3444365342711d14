"""What can be trained learns: the checks that the contracts of objectives and tasks share."""

import math

import tensorflow as tf

from convnlp.adamw import AdamW
from convnlp.testing.requirements import ROUNDING, require

_LEARNING_RATE, _NUM_STEPS = 0.01, 150
_MOST_LEFT = 0.6  # of the loss


def require_falling(model, loss):
    """Raises AssertionError unless a model learns one batch by heart: its loss must fall by two fifths.

    It need not come near 0: with smoothed labels, it cannot.

    Args:
        model: Keras model, built; it is trained by AdamW.
        loss: function without arguments that returns the batch's {"loss_sum", "weight", ...} in training.
    """
    optimizer = AdamW(_LEARNING_RATE, weight_decay=0.0)
    optimizer.build(model.trainable_variables)

    @tf.function(autograph=False)  # as in training
    def step():
        with tf.GradientTape() as tape:
            values = loss()
            mean = values["loss_sum"] / values["weight"]
        gradients = tape.gradient(mean, model.trainable_variables)
        pairs = [(g, v) for g, v in zip(gradients, model.trainable_variables, strict=True) if g is not None]
        optimizer.apply_gradients(pairs)
        return mean

    first = float(step())
    for _ in range(_NUM_STEPS):
        last = float(step())
    require(last < _MOST_LEFT * first, f"the loss fell from {first:.3f} to {last:.3f} only")


def require_seeded_dropout(loss_fn, batch):
    """Raises AssertionError unless dropout is active in training alone, and depends on the seed alone.

    Args:
        loss_fn: function of (batch, seed, training) -> {"loss_sum", ...}, for a model with dropout.
        batch: its first argument.
    """

    def loss(seed, training=True):
        return float(loss_fn(batch, tf.constant(seed), training=training)["loss_sum"])

    def same(one, other):
        return math.isclose(one, other, rel_tol=ROUNDING)

    first = loss([1, 2])
    require(same(loss([1, 2]), first), "in training, dropout must be the same for the same seed")
    require(not same(loss([3, 4]), first), "in training, dropout must be another for another seed")
    evaluated = loss([1, 2], False), loss([3, 4], False)
    require(same(*evaluated), "without training, there must be no dropout")
