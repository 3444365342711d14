"""What `fit` and `predict` are given, before keras_nlp makes batches of it."""

import numpy as np


def of_tables(x):
    """What pandas, polars and their like hold, as arrays; anything else as it is.

    Args:
        x: a column, a table of one or two columns of texts, or anything else that `fit` takes.

    Returns:
        An array [N] of a column; of a table of two columns, pairs of texts, a tuple of two.

    Raises:
        ValueError: on a table of more columns, or a column with texts and something that is none.
    """
    if isinstance(x, tuple):
        return tuple(map(of_tables, x))
    if not hasattr(x, "to_numpy"):
        return x
    values = x.to_numpy()
    if values.ndim == 2 and values.shape[1] > 2:
        raise ValueError(
            f"`x` must be a column of texts, or two for pairs. Received: {values.shape[1]} columns"
        )
    if values.ndim == 2:
        columns = tuple(_checked(values[:, i]) for i in range(values.shape[1]))
        return columns if len(columns) == 2 else columns[0]
    return _checked(values)


def _checked(values):
    """A column as it is; raises ValueError where a text is missing in it."""
    if values.dtype.kind != "O":
        return values
    is_text = [isinstance(value, str | bytes) for value in values]
    if any(is_text) and not all(is_text):
        place = is_text.index(False)
        raise ValueError(f"A column must hold texts alone. Received: {values[place]!r} at index {place}")
    return values if any(is_text) else np.array(values.tolist())  # numbers of a type that may be missing


def is_empty(x):
    """Whether x is a list or array without any example; of a tuple or dict, whether one of its parts is."""
    if isinstance(x, dict):
        return any(map(is_empty, x.values()))
    if isinstance(x, tuple):
        return not x or any(map(is_empty, x))
    if isinstance(x, list):
        return not x
    return isinstance(x, np.ndarray) and x.ndim > 0 and not len(x)


def require_examples(x):
    """Raises ValueError if x holds no example."""
    if is_empty(x):
        raise ValueError(f"`x` must hold at least one example. Received: {x!r}")


def splittable(x):
    """X with an array in place of each list, as `validation_split` takes it; strings stay Python's."""
    if isinstance(x, dict):
        return {name: splittable(value) for name, value in x.items()}
    if isinstance(x, tuple):
        return tuple(map(splittable, x))
    if not isinstance(x, list):
        return x
    # Not as NumPy's fixed-width strings, where each takes the room of the longest.
    return np.array(x, dtype=object) if x and isinstance(x[0], (str, bytes)) else np.asarray(x)


def check_validation_split(validation_split):
    """Raises ValueError unless it is None or a fraction in [0, 1)."""
    if validation_split is None:
        return
    if isinstance(validation_split, bool) or not isinstance(validation_split, (int, float)):
        valid = False
    else:
        valid = 0 <= validation_split < 1
    if not valid:
        raise ValueError(f"`validation_split` must be in [0, 1). Received: {validation_split!r}")
