"""How a check fails, even under `python -O`, which drops assert statements."""

import contextlib
import inspect
from collections.abc import Mapping

ROUNDING = 1e-4  # float32 sums of a few layers in another order


def require(condition, message):
    """Raises AssertionError with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def require_takes(method, *names):
    """Raises AssertionError unless a method, or function, takes keyword arguments of these names."""
    parameters = inspect.signature(method).parameters.values()
    known = {each.name for each in parameters if each.kind is not each.POSITIONAL_ONLY}
    missing = [name for name in names if name not in known]
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    require(takes_any or not missing, f"`{method.__name__}` must take {', '.join(missing)}")


def require_variants(variants):
    """Raises ValueError unless `variants` is a sequence of dicts, at least one."""
    if (
        not variants
        or isinstance(variants, Mapping)
        or not all(isinstance(each, Mapping) for each in variants)
    ):
        raise ValueError(
            f"`variants` must hold dicts of options, at least an empty one. Received: {variants!r}"
        )


@contextlib.contextmanager
def refused(*words, kind=ValueError):
    """Wraps a use that must be refused, by an error of this kind whose message contains all the words."""
    try:
        yield
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        require(not missing, f"the error must name {missing}: {error}")
    else:
        raise AssertionError(f"must be refused by a {kind.__name__} that names {', '.join(words)}")
