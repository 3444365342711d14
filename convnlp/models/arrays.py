"""Prepares the inputs of `fit` and `predict` before keras_nlp makes batches of them."""

import collections.abc
import numbers

import keras
import numpy as np
import tensorflow as tf

_BATCH_SIZE = 32  # as in Keras


def of_tables(x):
    """Turns columns and tables of pandas, polars, Arrow and the like into arrays or lists.

    Args:
        x: a column, a table of one or two columns of texts, a tuple or dict of these, or anything else that
            `fit` takes.

    Returns:
        A list or an array [N] for a column, also for a tuple of numbers; a tuple of two for a table of two
        columns, which holds pairs of texts. Anything else unchanged.

    Raises:
        ValueError: if a table has more columns, or a column holds anything besides texts.
    """
    return _of_tables(x, _texts)


def of_targets(y):
    """As `of_tables`, for targets: a table of C columns becomes an array [N,C]."""
    return _of_tables(y, _checked)


def _of_tables(x, of_values):
    """Applies a function to the values, an array [N] or [N,C], of each column and table."""
    if isinstance(x, dict):
        return {name: _of_tables(value, of_values) for name, value in x.items()}
    if isinstance(x, tuple) and not (x and all(isinstance(value, numbers.Number) for value in x)):
        return tuple(_of_tables(value, of_values) for value in x)
    if isinstance(x, np.ndarray):
        return x.astype(object) if x.dtype.kind == "T" else x  # strings of a type that TensorFlow lacks
    if isinstance(x, (list, str, bytes)) or tf.is_tensor(x):
        return x
    if isinstance(x, collections.abc.Sequence):  # such as a column of Hugging Face's datasets
        return list(x)
    return of_values(np.asarray(x)) if hasattr(x, "__array__") else x


def _texts(values):
    """Returns a column, or a tuple of two that hold pairs of texts."""
    if values.ndim != 2:
        return _checked(values)
    if values.shape[1] > 2:
        raise ValueError(
            f"`x` must be a column of texts, or two for pairs. Received: {values.shape[1]} columns"
        )
    columns = tuple(_checked(values[:, i]) for i in range(values.shape[1]))
    return columns if len(columns) == 2 else columns[0]


def _checked(values):
    """Returns a column unchanged; raises ValueError if a text is missing."""
    if values.dtype.kind != "O":
        return values
    is_text = [isinstance(value, str | bytes) for value in values]
    if any(is_text) and not all(is_text):
        place = is_text.index(False)
        raise ValueError(f"A column must hold only texts. Received: {values[place]!r} at index {place}")
    return values if any(is_text) else np.array(values.tolist())  # numbers of a nullable type


def flat(y):
    """Returns targets of the shape [N,1] as [N], so that both can be given in turn; anything else unchanged.

    Keras's graph of a training step takes targets of one rank.
    """
    if isinstance(y, list) and y and all(isinstance(row, list) and len(row) == 1 for row in y):
        return [row[0] for row in y]
    is_array = isinstance(y, np.ndarray) or tf.is_tensor(y)
    return y[:, 0] if is_array and y.shape[1:] == (1,) else y


def in_rows(y):
    """Returns targets of the shape [N] as [N,1], the inverse of `flat`; anything else unchanged."""
    if isinstance(y, list) and not any(isinstance(row, (list, tuple, np.ndarray)) for row in y):
        return [[value] for value in y]
    is_array = isinstance(y, np.ndarray) or tf.is_tensor(y)
    return y[..., None] if is_array and y.shape[1:] == () else y


def is_empty(x):
    """Whether x is a list, array or data set without examples, or a tuple or dict with such a part."""
    if isinstance(x, dict):
        return any(map(is_empty, x.values()))
    if isinstance(x, tuple):
        return not x or any(map(is_empty, x))
    if isinstance(x, list):
        return not x
    if isinstance(x, tf.data.Dataset):
        return int(x.cardinality()) == 0
    return (isinstance(x, np.ndarray) or tf.is_tensor(x)) and len(x.shape) > 0 and x.shape[0] == 0


def are_columns(x):
    """Returns whether x is an array, a list or a tensor, or a tuple or dict of them."""
    if isinstance(x, (tuple, dict)):
        return all(map(are_columns, x.values() if isinstance(x, dict) else x))
    return isinstance(x, (list, np.ndarray)) or tf.is_tensor(x)


def are_single(x):
    """Returns whether x is one list, array or tensor, or a data set whose examples are one tensor each."""
    if isinstance(x, tf.data.Dataset):
        spec = x.element_spec
        return isinstance(spec[0] if isinstance(spec, tuple) else spec, tf.TensorSpec)
    return not isinstance(x, (tuple, dict)) and are_columns(x)


def in_line(value):
    """Returns the beginning of `repr(value)` in one line, for messages; arrays have several."""
    return " ".join(repr(value).split())[:100]


def split(data, validation_split):
    """Returns (columns to train on, columns to validate on, their last entries), as Keras splits arrays.

    Args:
        data: tuple of columns, see `are_columns`, or None.
        validation_split: float in (0, 1), the share to validate on.

    Raises:
        ValueError: if one of the two would have no example.
    """
    data = _mapped(tf.convert_to_tensor, data)
    count = _count(data)
    place = int(count * (1 - validation_split))
    if not 0 < place < count:
        raise ValueError(
            "`validation_split` must leave examples to train on and to validate on. "
            f"Received: validation_split={validation_split!r}, {count} examples"
        )
    return _mapped(lambda column: column[:place], data), _mapped(lambda column: column[place:], data)


def batches(x, y, sample_weight, batch_size, is_shuffled):
    """Returns a data set of batches of columns, see `are_columns`; if shuffled, in a new order each epoch."""
    data = _mapped(tf.convert_to_tensor, (x, y, sample_weight))
    count = _count(data)
    places = tf.data.Dataset.range(count)
    if is_shuffled:
        places = places.shuffle(count)
    packed = keras.utils.pack_x_y_sample_weight(*data)
    return places.batch(batch_size or _BATCH_SIZE).map(
        lambda chosen: _mapped(lambda column: tf.gather(column, chosen), packed)
    )


def _mapped(function, data):
    """Applies a function to each column, which may be a list."""
    if isinstance(data, dict):
        return {name: _mapped(function, value) for name, value in data.items()}
    if isinstance(data, tuple):
        return tuple(_mapped(function, value) for value in data)
    return None if data is None else function(data)


def _count(data):
    return int(tf.nest.flatten(data)[0].shape[0])


def check_validation_split(validation_split):
    """Raises ValueError unless it is None or a fraction in [0, 1)."""
    is_number = isinstance(validation_split, (int, float)) and not isinstance(validation_split, bool)
    if validation_split is not None and not (is_number and 0 <= validation_split < 1):
        raise ValueError(f"`validation_split` must be in [0, 1). Received: {validation_split!r}")
