"""Which form of a kernel is traced: one setting for all kernels."""

import contextlib
import math

import tensorflow as tf

IMPLEMENTATIONS = ("auto", "fast", "plain", "inference", "edge")

# A plain global, not a thread-local: MirroredStrategy traces each replica in a thread of its own.
_selected = "auto"

_LARGE = 2**17  # elements
_USUAL_BATCH = 64


@contextlib.contextmanager
def implementation(name):
    """Traces every kernel called inside in the form `name`.

    The choice is read when a function is traced, and it is one setting for the whole process.

    Args:
        name: str. `"fast"`: the training forms for CPUs, with gradients of their own. `"plain"`: sums of
            shifted copies, differentiated by TensorFlow, friendly to XLA and TPUs. `"inference"`: what
            SavedModels hold: no custom gradient, no compiled island. `"edge"`: what TFLite files hold: the
            same in the operations that XNNPACK takes. `"auto"`: `"plain"` under a TPUStrategy and for
            tensors too small to gain, `"fast"` elsewhere.

    Raises:
        ValueError: if there is no such implementation.

    Example:
    >>> with implementation("plain"):
    ...     current_implementation()
    'plain'
    """
    global _selected
    if name not in IMPLEMENTATIONS:
        raise ValueError(f"`name` must be one of {', '.join(IMPLEMENTATIONS)}. Received: {name!r}")
    previous, _selected = _selected, name
    try:
        yield
    finally:
        _selected = previous


def current_implementation(x=None):
    """The form that a kernel called now would be traced in: `"fast"`, `"plain"`, `"inference"` or `"edge"`.

    Args:
        x: tensor, of a kernel whose fast form is compiled for every shape and pays only where x is large.
            Defaults to None: the fast form always pays.
    """
    if _selected != "auto":
        return _selected
    if isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy):
        return "plain"
    return "fast" if x is None or _is_large(x) else "plain"


def _is_large(x):
    """Whether a pass over x takes longer than an operation's overhead; an unknown axis counts as a batch."""
    return math.prod(size or _USUAL_BATCH for size in x.shape) >= _LARGE
