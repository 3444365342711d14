"""Checks of arguments and lengths; their errors name the argument, the rule and the value."""

import numbers
import sys

import tensorflow as tf


def length_rule(name, limit_name, limit, reason):
    """Returns an error message about too many positions, up to their number."""
    return f"`{name}` must have at most {limit_name} = {limit} positions: {reason}. Received:"


def with_length_limit(x, name, limit_name, limit, reason):
    """Checks that x [B,T,...] has at most `limit` positions T.

    If T is not known while tracing, the check becomes part of the graph, also of exported ones; TFLite and
    XLA drop it.

    Args:
        x: tensor [B,T,...].
        name: str. The caller's name for x.
        limit_name: str. The argument that sets the limit.
        limit: int.
        reason: str. Why there is a limit.

    Returns:
        `x`, to use instead of the original.

    Raises:
        ValueError: if T exceeds `limit`.
        tf.errors.InvalidArgumentError: likewise, when a graph with unknown T runs.
    """
    rule, length = length_rule(name, limit_name, limit, reason), x.shape[1]
    if length is not None:
        if length > limit:
            raise ValueError(f"{rule} {length}")
        return x
    length = tf.shape(x)[1]
    with tf.control_dependencies([tf.debugging.Assert(length <= limit, [rule, length])]):
        return tf.identity(x)


def require_count(name, value, minimum=1):
    """Raises ValueError unless the argument `name` is an int of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ValueError(f"`{name}` must be an int >= {minimum}. Received: {name}={value!r}")


def counts(name, values, minimum=1):
    """Returns the ints of an argument that takes one or several, as a list; `require_count` checks each."""
    found = list(values) if isinstance(values, (list, tuple)) else [values]
    for value in found:
        require_count(name, value, minimum)
    return found


def require_positive(name, value, most=None):
    """Raises ValueError unless the argument `name` is a finite number > 0, at most `most` if given."""
    largest = sys.float_info.max if most is None else most
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < value <= largest:
        rule = "> 0" if most is None else f"in (0, {most}]"
        raise ValueError(f"`{name}` must be {rule}. Received: {name}={value!r}")


def require_heads(hidden_dim, num_heads, name="num_heads"):
    """Raises ValueError unless the argument `name` divides `hidden_dim`."""
    require_count(name, num_heads)
    if hidden_dim % num_heads:
        raise ValueError(
            f"`{name}` must divide hidden_dim. Received: {name}={num_heads}, hidden_dim={hidden_dim}"
        )


def require_rate(name, value):
    """Raises ValueError unless the argument `name` is a dropout rate."""
    if not isinstance(value, numbers.Real) or not 0 <= value < 1:
        raise ValueError(f"`{name}` must be in [0, 1). Received: {name}={value!r}")
