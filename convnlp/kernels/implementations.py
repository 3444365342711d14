"""Selects the form in which kernels are traced: one setting for all kernels."""

import contextlib
import math
import threading

import tensorflow as tf

IMPLEMENTATIONS = ("auto", "fast", "plain", "inference", "edge")

_context = threading.local()

_LARGE = 2**17  # elements
_USUAL_BATCH = 64


@contextlib.contextmanager
def implementation(name):
    """Makes every kernel that is called inside be traced in the form `name`.

    The setting applies to the thread that enters, so that an export leaves training in another thread alone,
    and is read when a function is traced. A MirroredStrategy traces each replica in a thread of its own:
    enter inside of what its `run` is given.

    Args:
        name: str. `"fast"`: for training on CPUs, with custom gradients. `"plain"`: sums of shifted copies,
            differentiated by TensorFlow, for XLA and TPUs. `"inference"`: for SavedModels, without custom
            gradients and compiled islands. `"edge"`: for TFLite files, likewise, in operations that XNNPACK
            supports. `"auto"`: `"plain"` under a TPUStrategy and for tensors too small to gain, otherwise
            `"fast"`.

    Raises:
        ValueError: if the name is unknown.

    Example:
    >>> with implementation("plain"):
    ...     current_implementation()
    'plain'
    """
    if name not in IMPLEMENTATIONS:
        raise ValueError(f"`name` must be one of {', '.join(IMPLEMENTATIONS)}. Received: {name!r}")
    outer = _selected()
    _context.selected = name
    try:
        yield
    finally:
        _context.selected = outer


def current_implementation(x=None):
    """Returns the form in which a kernel would be traced now: "fast", "plain", "inference" or "edge".

    Args:
        x: tensor, for kernels whose fast form is compiled for every shape, which pays only if x is large.
            Defaults to None, for kernels whose fast form always pays.
    """
    selected = _selected()
    if selected != "auto":
        return selected
    if isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy):
        return "plain"
    return "fast" if x is None or _is_large(x) else "plain"


def _selected():
    return getattr(_context, "selected", "auto")


def _is_large(x):
    """Whether a pass over x takes longer than an operation's overhead; an unknown axis counts as a batch."""
    return math.prod(size or _USUAL_BATCH for size in x.shape) >= _LARGE
