"""Refuses data that `fit`, `evaluate` and `predict` cannot use, in one line, before a batch is made."""

import keras
import numpy as np
import tensorflow as tf

from convnlp.models import arrays


def check(model, x, y=None, sample_weight=None, needs_y=False, name="x"):
    """Raises ValueError for data without examples, missing texts, and columns of unequal length.

    Args:
        model: a task; texts are looked for only if it has a preprocessor.
        x: list, array or tensor of texts, a tuple or dict of them, or a data set.
        y: the targets, or None.
        sample_weight: a weight for each example, or None.
        needs_y: bool. Whether the model cannot do without targets. Default False.
        name: str. The caller's name for the data. Default "x".
    """
    arrays.require_examples(x, name)
    if isinstance(x, tf.data.Dataset):
        _check_data_set(x, needs_y, name)
        return
    if needs_y and y is None and (isinstance(x, (list, tuple, dict, np.ndarray)) or tf.is_tensor(x)):
        raise ValueError(f"`y` must hold a target for each example of `{name}`. Received: y=None")
    if model.preprocessor is not None:
        if hasattr(x, "__next__") or isinstance(x, keras.utils.PyDataset):
            raise ValueError(
                f"`{name}` must be lists, arrays or a data set of tf.data, as "
                f"`tf.data.Dataset.from_generator` makes of a generator. Received: {x!r:.100}"
            )
        for column, is_text in _columns(x):
            check_texts(column, name, is_text)
    counts = [_count(column) for column, _ in _columns(x)] + [_count(y), _count(sample_weight)]
    if len(set(counts) - {None}) > 1:
        counts = ", ".join(str(count) for count in counts if count is not None)
        parts = f"`{name}`, its targets and its weights" if y is not None else f"The columns of `{name}`"
        raise ValueError(f"{parts} must have as many entries each. Received: {counts}")


def _columns(x, is_text=True):
    """Yields each column of x, and whether it must hold texts: that of a dict may hold numbers."""
    if isinstance(x, dict):
        for part in x.values():
            yield from _columns(part, is_text=False)
    elif isinstance(x, tuple):
        for part in x:
            yield from _columns(part, is_text)
    elif x is not None:
        yield x, is_text


def check_texts(column, name, is_text=True):
    """Raises ValueError if a list or an array holds anything besides texts.

    Args:
        column: list or array; anything else passes.
        name: str. The caller's name for it.
        is_text: bool. Whether it must hold texts even if its first entries are not. Default True.
    """
    if not isinstance(column, (list, np.ndarray)) or getattr(column, "ndim", 1) == 0:
        return
    if isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in ("U", "S"):
        return
    for place, value in enumerate(column):
        if isinstance(value, (str, bytes, tf.Tensor)):
            is_text = True
        elif is_text:
            is_row = isinstance(value, (list, tuple, np.ndarray))
            hint = "; for pairs of texts, pass a tuple of two lists" if is_row else ""
            raise ValueError(
                f"`{name}` must hold only texts. Received: {value!r:.100} at index {place}{hint}"
            )


def _check_data_set(x, needs_y, name):
    spec = x.element_spec
    if needs_y and not (isinstance(spec, tuple) and len(spec) > 1):
        raise ValueError(f"`{name}` must be a data set of (examples, targets). Received: {x!r}")
    first = spec[0] if isinstance(spec, tuple) else spec
    if any(isinstance(part, tf.TensorSpec) and part.shape.rank == 0 for part in tf.nest.flatten(first)):
        raise ValueError(f"`{name}` must be a data set of batches: call its `batch`. Received: {x!r}")


def _count(column):
    """Returns how many entries a list or an array has, or None if that is not known."""
    if isinstance(column, list):
        return len(column)
    shape = getattr(column, "shape", None)
    return shape[0] if shape else None
