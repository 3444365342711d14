"""Refuses data that `fit`, `evaluate` and `predict` cannot use, in one line, before a batch is made."""

import numbers
import re

import keras
import numpy as np
import tensorflow as tf

from convnlp.models import arrays

_NO_FIELDS = "`{}` must be texts, or a tuple of two columns of texts; of a dict, pass its columns"
_SURROGATE = re.compile("[\ud800-\udfff]")  # half of a pair, of which no UTF-8 can be made


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
    if x is None or arrays.is_empty(x):
        raise ValueError(f"`{name}` must hold at least one example. Received: {x!r}")
    takes_fields = getattr(model.preprocessor, "takes_fields", True)
    if isinstance(x, tf.data.Dataset):
        _check_data_set(x, needs_y, name, takes_fields)
        return
    if isinstance(x, dict) and not takes_fields:
        raise ValueError(f"{_NO_FIELDS.format(name)}. Received: a dict of {', '.join(map(repr, x))}")
    if needs_y and y is None and (isinstance(x, (list, tuple, dict, np.ndarray)) or tf.is_tensor(x)):
        raise ValueError(f"`y` must hold a target for each example of `{name}`. Received: y=None")
    if hasattr(x, "__next__") or isinstance(x, (set, frozenset, keras.utils.PyDataset)):
        raise ValueError(
            f"`{name}` must be lists, arrays or a data set of tf.data, as "
            f"`tf.data.Dataset.from_generator` makes of a generator. Received: {arrays.in_line(x)}"
        )
    if model.preprocessor is not None:
        for column, is_text in _columns(x):
            if isinstance(column, (str, bytes)) or getattr(column, "shape", None) == ():
                raise ValueError(
                    f"`{name}` must be a list of texts, even of one. Received: {arrays.in_line(column)}"
                )
            if is_text and tf.is_tensor(column):
                _check_tensor(column, name)
            check_texts(column, name, is_text)
    for argument, given in (("y", y), ("sample_weight", sample_weight)):
        for column, _ in _columns(given):
            if isinstance(column, numbers.Number) or getattr(column, "shape", None) == ():
                raise ValueError(
                    f"`{argument}` must be a list or an array with an entry for each example. "
                    f"Received: {arrays.in_line(given)}"
                )
    counts = [_count(column) for column, _ in _columns(x)] + [_count(y), _count(sample_weight)]
    if len(set(counts) - {None}) > 1:
        counts = ", ".join(str(count) for count in counts if count is not None)
        others = {"its targets": y, "its weights": sample_weight}
        others = [part for part, given in others.items() if given is not None]
        parts = " and ".join([f"`{name}`", *others]) if others else f"The columns of `{name}`"
        raise ValueError(f"{parts} must have as many entries each. Received: {counts}")
    if isinstance(sample_weight, (list, np.ndarray)):
        _check_weights(np.asarray(sample_weight))


def check_batch_size(batch_size):
    """Raises ValueError unless `batch_size` is an integer >= 1, or None for the default.

    With a number below 1, some calls would give no answers at all, and others take the default.
    """
    is_integer = isinstance(batch_size, numbers.Integral) and not isinstance(batch_size, bool)
    if batch_size is not None and not (is_integer and batch_size >= 1):
        raise ValueError(f"`batch_size` must be an integer >= 1. Received: batch_size={batch_size!r:.100}")


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
    """Raises ValueError if a list or an array holds anything besides texts, as strings or UTF-8.

    Args:
        column: list or array; anything else passes.
        name: str. The caller's name for it.
        is_text: bool. Whether it must hold texts even if its first entries are not. Default True.
    """
    if not isinstance(column, (list, np.ndarray)) or getattr(column, "ndim", 1) == 0:
        return
    for place, value in enumerate(column):
        if isinstance(value, (str, bytes, tf.Tensor)):
            is_text = True
            if isinstance(value, str) and not value.isascii() and _SURROGATE.search(value):
                raise ValueError(
                    f"`{name}` holds half of a surrogate pair. Received: {value!r:.100} at index {place}"
                )
            if isinstance(value, bytes) and not _is_utf8(value):
                raise ValueError(f"`{name}` must be UTF-8. Received: {value!r:.100} at index {place}")
        elif is_text:
            value = value.tolist() if isinstance(value, np.ndarray) else value  # in one line
            is_row = isinstance(value, (list, tuple))
            hint = "; for pairs of texts, pass a tuple of two lists" if is_row else ""
            raise ValueError(
                f"`{name}` must hold only texts. Received: {value!r:.100} at index {place}{hint}"
            )


def _is_utf8(value):
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def check_numbers(y, width, rule, holds):
    """Raises ValueError if targets are not numbers of which a loss can be computed.

    TensorFlow would turn all weights into NaN, or learn from what is wrong.

    Args:
        y: list, array or tensor of numbers, [N,width] or, if width is 1, [N]; anything else passes.
        width: int >= 1.
        rule: str, the first half of the message.
        holds: function from a float array to whether each number is as it must be.
    """
    if not isinstance(y, (list, np.ndarray)) and not (tf.is_tensor(y) and hasattr(y, "numpy")):
        return
    try:
        values = np.asarray(y)
    except ValueError as error:
        raise ValueError(f"{rule}. Received: rows of unequal length") from error
    if values.shape[1:] != (width,) and not (width == values.ndim == 1):
        raise ValueError(f"{rule}. Received: values of the shape {values.shape}")
    rows = values.reshape([len(values), width])
    if rows.dtype.kind not in "biuf":
        known = [[isinstance(value, numbers.Real) for value in row] for row in rows]
        rows = np.where(known, rows.astype(object), np.nan).astype(float)
    wrong = np.flatnonzero(~holds(rows).all(1))
    if len(wrong):
        raise ValueError(f"{rule}. Received: {values[wrong].tolist()[0]!r:.100} at index {wrong[0]}")


def single_or_many(texts):
    """Returns texts as a list, an array or a tensor, and whether they were a single one.

    Args:
        texts: str, bytes, list, array, tensor or column of a table.

    Returns:
        (texts, bool); None for anything else.
    """
    texts = arrays.of_tables(texts)
    is_array = tf.is_tensor(texts) or isinstance(texts, np.ndarray)
    if is_array and len(texts.shape) == 0:
        texts = texts.numpy() if tf.is_tensor(texts) else texts.item()
    if isinstance(texts, (str, bytes)):
        return [texts], True
    return (texts, False) if isinstance(texts, list) or (is_array and len(texts.shape) > 0) else None


def listed(texts, name):
    """Returns texts as a list.

    Args:
        texts: list, tuple, array, tensor or column of a table.
        name: str. The caller's name for it.

    Raises:
        ValueError: for anything else, such as a single text, whose letters would be taken for texts.
    """
    texts = arrays.of_tables(texts)
    if isinstance(texts, (str, bytes)) or not np.iterable(texts):
        raise ValueError(f"`{name}` must be a list of texts. Received: {arrays.in_line(texts)}")
    texts = list(texts.numpy() if tf.is_tensor(texts) else texts)
    check_texts(texts, name)
    return texts


def _check_weights(weights):
    """Raises ValueError unless all are finite and >= 0; the model would take over NaN."""
    flat = weights.ravel()
    if weights.dtype.kind not in "biuf":
        flat = np.array([value if isinstance(value, numbers.Real) else np.nan for value in flat], float)
    wrong = np.flatnonzero(~((flat >= 0) & (flat < np.inf)))
    if len(wrong):
        received = weights.ravel().tolist()[wrong[0]]
        raise ValueError(
            f"`sample_weight` must be finite and >= 0. Received: {received!r} at index {wrong[0]}"
        )


def check_held_out(model, data):
    """Raises ValueError if `validation_data` is neither None, nor (x, y), nor a data set.

    Args:
        model: as for `check`.
        data: what the user has given.
    """
    is_known = data is None or isinstance(data, (tuple, list, tf.data.Dataset))
    if model.preprocessor is not None and not is_known:
        raise ValueError(
            "`validation_data` must be a tuple (x, y) or a data set of tf.data. "
            f"Received: {type(data).__name__}"
        )


def _check_data_set(x, needs_y, name, takes_fields):
    spec = x.element_spec
    if needs_y and not (isinstance(spec, tuple) and len(spec) > 1):
        raise ValueError(f"`{name}` must be a data set of (examples, targets). Received: {x!r}")
    first = spec[0] if isinstance(spec, tuple) else spec
    # Of `validation_data`, `fit` passes the rows of tokens that it has made.
    if isinstance(first, dict) and not takes_fields and "token_ids" not in first:
        raise ValueError(
            f"{_NO_FIELDS.format(name)}. Received: a data set with {', '.join(map(repr, first))}"
        )
    if any(isinstance(part, tf.TensorSpec) and part.shape.rank == 0 for part in tf.nest.flatten(first)):
        raise ValueError(f"`{name}` must be a data set of batches: call its `batch`. Received: {x!r}")
    if not isinstance(first, dict) and not takes_fields:
        for part in tf.nest.flatten(first):
            _check_tensor(part, name)


def _check_tensor(part, name):
    """Raises ValueError unless a tensor, or what describes those of a data set, is of texts [B]."""
    if part.dtype != tf.string or part.shape.rank not in (1, None):
        raise ValueError(
            f"`{name}` must hold a row of texts, string [B]. Received: {part.dtype.name} {part.shape}"
        )


def _count(column):
    """Returns how many entries a list or an array has, or None if that is not known."""
    if isinstance(column, list):
        return len(column)
    shape = getattr(column, "shape", None)
    return shape[0] if shape is not None and len(shape) else None  # of a scalar, TensorFlow's shape is true
