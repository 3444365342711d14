"""Rules that a value must keep, and the one line that says so where it does not."""

import collections.abc
import math
import numbers
import reprlib
import typing

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = 40
_repr.maxlevel = 2


def short(value):
    """`repr(value)`, cut to a part of a line however large or deep the value is.

    Example:
    >>> short([[[["a" * 1000]]], 7])
    '[[[...]], 7]'
    """
    return _repr.repr(value)


class Rule(typing.NamedTuple):
    """A rule that a value keeps or not.

    Attributes:
        text: string, what stands behind "must be".
        holds: function of a value -> bool; never raises.

    Example:
    >>> integer(at_least=1).check("batch_size", 0)
    Traceback (most recent call last):
    ...
    ValueError: `batch_size` must be an integer >= 1. Received: batch_size=0
    """

    text: str
    holds: typing.Callable

    def check(self, name, value):
        """Raises ValueError in one line if `value`, the argument called `name`, breaks the rule."""
        if not self.holds(value):
            raise ValueError(f"`{name}` must be {self.text}. Received: {name}={short(value)}")


def integer(at_least, below=2**31):
    """An integer in [at_least, below); a bool is none."""

    def holds(value):
        return (
            isinstance(value, numbers.Integral) and not isinstance(value, bool) and at_least <= value < below
        )

    text = f"an integer >= {at_least}"
    return Rule(text if below == 2**31 else f"an integer in [{at_least}, {below})", holds)


def number(interval):
    """A finite number in an interval, such as "(0, 1]" or "[0, inf)"; a bool is none.

    Example:
    >>> number("[0, 1)").holds(0), number("[0, 1)").holds(1), number("(0, inf)").holds(float("nan"))
    (True, False, False)
    """
    low, high = map(float, interval[1:-1].split(","))

    def holds(value):
        return (
            isinstance(value, numbers.Real)
            and not isinstance(value, bool)
            and -math.inf < value < math.inf
            and (low <= value if interval[0] == "[" else low < value)
            and (value <= high if interval[-1] == "]" else value < high)
        )

    return Rule(f"a number in {interval}", holds)


def one_of(values):
    """One of some strings."""
    return Rule(f"one of {', '.join(values)}", lambda value: isinstance(value, str) and value in values)


def sequence_of(rule, at_least=0):
    """A list or tuple of different values, each of which keeps `rule`."""

    def holds(values):
        return (
            isinstance(values, collections.abc.Sequence)
            and not isinstance(values, str | bytes)
            and len(values) >= at_least
            and all(map(rule.holds, values))
            and len(set(values)) == len(values)
        )

    count = f"at least {at_least} " if at_least else ""
    return Rule(f"a sequence of {count}different values, each {rule.text}", holds)


STRING = Rule("a string", lambda value: isinstance(value, str))
NAME = Rule("a string that is not empty", lambda value: isinstance(value, str) and bool(value))
BOOL = Rule("True or False", lambda value: isinstance(value, bool))
