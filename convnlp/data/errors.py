"""The one error of reading data, and its message after it has gone through tf.data."""

import re


class SourceError(ValueError):
    """A data source cannot be used as asked: one line with source, file and line where there is one."""


def source_error_message(error):
    """The message of the `SourceError` that `error` is, or was before tf.data wrapped it.

    A Python exception inside `Dataset.map` reaches the caller as a `tf.errors.OpError` whose text holds the
    exception's class and message, a traceback and the names of graph nodes.

    Args:
        error: an exception.

    Returns:
        The one line of the `SourceError`, or None where `error` has another cause.

    Example:
    >>> source_error_message(SourceError("reviews.jsonl, line 7: no field 'text'"))
    "reviews.jsonl, line 7: no field 'text'"
    >>> source_error_message(KeyError("text")) is None
    True
    """
    if isinstance(error, SourceError):
        return str(error)
    wrapped = re.search(rf"\b{SourceError.__name__}: (.+)", str(error))
    return wrapped.group(1) if wrapped else None
