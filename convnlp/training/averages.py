"""The exponential moving average of the weights, often a better model than the weights themselves."""

import contextlib

import tensorflow as tf


class Averages:
    """Averages of variables over the updates.

    Before the optimizer's first update, the average A of a variable W is W; after update t = 0, 1, ...

        A += (1 - min(m, (1 + t) / (10 + t))) (W - A)

    so that the initial, random weights are forgotten within a few updates, even in a run that is short
    compared with 1 / (1 - m).

    Source: Polyak and Juditsky, 1992; the growing momentum is that of `tf.train.ExponentialMovingAverage`.
    Differences from `use_ema` of Keras' optimizers: the momentum grows; variables without a gradient are
    averaged too; it works with mirrored replicas.

    Args:
        optimizer: a built Keras optimizer. The averages become variables of it, and are saved with it.
        variables: list of the Keras variables that it trains.
        momentum: float in (0, 1). m.
    """

    def __init__(self, optimizer, variables, momentum):
        self._optimizer, self._variables, self._momentum = optimizer, variables, momentum
        self._averages = [optimizer.add_variable_from_reference(v, name="average") for v in variables]
        _assign(self._averages, variables)

    def update(self):
        """Updates the averages after an update of the optimizer; to be called in a replica, in the graph."""
        t = tf.cast(self._optimizer.iterations, tf.float32) - 1.0
        rest = 1.0 - tf.minimum(self._momentum, (1.0 + t) / (10.0 + t))

        def move(average, variable, rest):
            average.assign_add(tf.cast(rest, average.dtype) * (variable - average))

        def move_all(strategy, rest):
            for average, variable in zip(self._averages, self._variables, strict=True):
                args = (variable.value, rest)
                strategy.extended.update(average.value, move, args=args, group=False)

        tf.distribute.get_replica_context().merge_call(move_all, args=(rest,))

    def take(self):
        """Sets the variables to their averages."""
        _assign(self._variables, self._averages)

    @contextlib.contextmanager
    def taken(self):
        """Context manager for `take`; on exit, the variables get their old values back, bit for bit."""
        values = [tf.identity(tf.convert_to_tensor(v)) for v in self._variables]
        self.take()
        try:
            yield
        finally:
            _assign(self._variables, values)


def _assign(variables, values):
    for variable, value in zip(variables, values, strict=True):
        variable.assign(tf.convert_to_tensor(value))
