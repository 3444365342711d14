"""What can be trained learns: the check that the contracts of objectives and tasks share."""

import tensorflow as tf

from convnlp.adamw import AdamW
from convnlp.testing.requirements import require

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
