"""The exponential moving average of the weights, often a better model than the weights themselves."""

import contextlib

import tensorflow as tf


class Averages:
    """Averages of variables over the updates.

    Before the first update of the optimizer the average A of a variable W is W; after update t = 0, 1, ...

        A += (1 - min(m, (1 + t) / (10 + t))) (W - A)

    so that the first weights, which are random, are forgotten in a few updates and do not weigh on a run that
    is short beside 1 / (1 - m).

    Source: Polyak and Juditsky, 1992; the growing momentum is that of `tf.train.ExponentialMovingAverage`.
    Departs from `use_ema` of Keras' optimizers: the growing momentum; variables without a gradient count too;
    it works where replicas are mirrored.

    Args:
        optimizer: a built Keras optimizer. The averages are variables of it, and saved with it.
        variables: list of Keras variables, those that it trains.
        momentum: float in (0, 1). m.
    """

    def __init__(self, optimizer, variables, momentum):
        self._optimizer, self._variables, self._momentum = optimizer, variables, momentum
        self._averages = [optimizer.add_variable_from_reference(v, name="average") for v in variables]
        _assign(self._averages, variables)

    def update(self):
        """Takes in the variables as the optimizer's last update has left them; in a replica, in the graph."""
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
        """Gives the variables the values of their averages."""
        _assign(self._variables, self._averages)

    @contextlib.contextmanager
    def taken(self):
        """`take` for a while: afterwards the variables are, bit for bit, what they were."""
        values = [tf.identity(tf.convert_to_tensor(v)) for v in self._variables]
        self.take()
        try:
            yield
        finally:
            _assign(self._variables, values)


def _assign(variables, values):
    for variable, value in zip(variables, values, strict=True):
        variable.assign(tf.convert_to_tensor(value))
