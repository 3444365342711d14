"""How a check fails, even under `python -O`, which drops assert statements."""

import contextlib


def require(condition, message):
    """Raises AssertionError with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


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
