"""Detects weights that are not finite, which are worthless, before anything is written."""

import tensorflow as tf


class NonFiniteError(ArithmeticError):
    """A loss, a score or a weight became NaN or infinite."""


def complaint(variables):
    """Returns a complaint about the first variable that holds NaN or infinity.

    Args:
        variables: list of Keras variables.

    Returns:
        "the weights are not finite (first: PATH)" or None.
    """
    for variable in variables:
        value = tf.convert_to_tensor(variable)
        if value.dtype.is_floating and not bool(tf.reduce_all(tf.math.is_finite(value))):
            return f"the weights are not finite (first: {variable.path})"
    return None
