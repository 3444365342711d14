"""The error raised when data cannot be read, and its message after tf.data has wrapped it."""

import contextlib
import re

import tensorflow as tf


class SourceError(ValueError):
    """A data source cannot be used as asked; the message is one line that says where and why."""


def source_error_message(error):
    """Returns the message of the `SourceError` that `error` is, or was before tf.data wrapped it.

    A Python exception inside `Dataset.map` reaches the caller as a `tf.errors.OpError` whose text holds the
    exception's class and message, a traceback and the names of graph nodes.

    Args:
        error: an exception.

    Returns:
        string, the line of the `SourceError`; None if `error` has another cause.

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


@contextlib.contextmanager
def unwrapped():
    """Raises a `SourceError` as such in the block, also where tf.data has wrapped it."""
    try:
        yield
    except tf.errors.OpError as error:
        if message := source_error_message(error):
            raise SourceError(message) from error
        raise
