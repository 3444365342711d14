"""Rules for values, with an error of one line for a value that breaks one."""

import collections.abc
import math
import numbers
import reprlib
import typing

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = 40
_repr.maxlevel = 2


def short(value):
    """Returns `repr(value)`, shortened to part of a line however large or deep the value is.

    Example:
    >>> short([[[["a" * 1000]]], 7])
    '[[[...]], 7]'
    """
    return _repr.repr(value)


class Rule(typing.NamedTuple):
    """A rule that a value obeys or breaks.

    Attributes:
        text: string, what follows "must be" in the error.
        holds: function of a value -> bool, whether the value obeys the rule; never raises.

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
    """Returns the rule: an integer in [at_least, below). A bool does not count as an integer."""

    def holds(value):
        return (
            isinstance(value, numbers.Integral) and not isinstance(value, bool) and at_least <= value < below
        )

    text = f"an integer >= {at_least}"
    return Rule(text if below == 2**31 else f"an integer in [{at_least}, {below})", holds)


def number(interval):
    """Returns the rule: a finite number in an interval such as "(0, 1]" or "[0, inf)"; a bool is not.

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
    """Returns the rule: one of the strings `values`."""
    return Rule(f"one of {', '.join(values)}", lambda value: isinstance(value, str) and value in values)


def sequence_of(rule, at_least=0):
    """Returns the rule: a list or tuple of at least `at_least` different values that each obey `rule`."""

    def holds(values):
        return (
            isinstance(values, collections.abc.Sequence)
            and not isinstance(values, str | bytes)
            and len(values) >= at_least
            and all(map(rule.holds, values))
            and len(set(values)) == len(values)
        )

    kind = "a non-empty sequence of" if at_least == 1 else "a sequence of"
    count = f"at least {at_least} " if at_least > 1 else ""
    return Rule(f"{kind} {count}different values, each {rule.text}", holds)


STRING = Rule("a string", lambda value: isinstance(value, str))
NAME = Rule("a non-empty string", lambda value: isinstance(value, str) and bool(value))
BOOL = Rule("True or False", lambda value: isinstance(value, bool))
