"""The names of a model's classes, and the numbers that they stand for."""

import contextlib
import difflib
import numbers

import numpy as np
import tensorflow as tf

_RULE = "`y` must hold names of the classes"


def check_names(labels, num_classes):
    """Returns the names as a list of str, or None.

    Raises:
        ValueError: unless there are as many names as classes, all of them strings and different.
    """
    if labels is None:
        return None
    if isinstance(labels, (str, bytes)) or not np.iterable(labels):
        raise ValueError(f"`labels` must be a list of strings. Received: {labels!r}")
    labels = list(labels)
    if len(labels) != num_classes:
        raise ValueError(
            f"`labels` must name num_classes={num_classes} classes. Received: {len(labels)} names"
        )
    for i, label in enumerate(labels):
        if not isinstance(label, str):
            raise ValueError(f"`labels` must be strings. Received: {label!r}")
        if label in labels[:i]:
            raise ValueError(f"`labels` must differ from each other. Received: {label!r} twice")
    return labels


def names_of(model):
    """Returns the names of a model's C classes, a list of str: its `labels`, or else their numbers."""
    return model.labels or [str(number) for number in range(model.num_classes)]


def to_numbers(y, labels):
    """Turns names of classes into their numbers; returns anything without strings unchanged.

    Args:
        y: list, NumPy array or tensor of names [B] or [B,1], or anything else.
        labels: list of C str in the order of the classes, or None.

    Returns:
        int32 array [B], or an int32 tensor [B] inside a graph.

    Raises:
        ValueError: if a name is unknown, an example has several, or the classes have no names.
        tf.errors.InvalidArgumentError: likewise, while a `tf.data` pipeline runs; see `explained`.
    """
    if tf.is_tensor(y):
        if y.dtype != tf.string:
            return y
        if not tf.executing_eagerly():
            return _in_graph(y, _required(labels))
        y = y.numpy()
    elif not isinstance(y, (str, bytes)) and not _holds_strings(y):
        return y
    number = {label: i for i, label in enumerate(_required(labels))}
    found = []
    for row, names in enumerate(np.atleast_1d(np.asarray(y, dtype=object)).tolist()):
        names = names if isinstance(names, (list, tuple)) else [names]
        if len(names) != 1:
            raise ValueError(f"{_RULE}, one for each example. Received: {names!r:.100} at index {row}")
        (name,) = (each.decode("utf-8", "replace") if isinstance(each, bytes) else each for each in names)
        if not isinstance(name, str) or name not in number:
            near = difflib.get_close_matches(str(name), labels, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{_RULE}: {_shown(labels)}. Received: {name!r} at index {row}{hint}")
        found.append(number[name])
    return np.array(found, "int32")


def check_numbers(y, num_classes):
    """Raises ValueError if an array holds anything besides a number of a class for each example.

    TensorFlow finds out when the batch is reached, after the weights have learned from those before it.

    Args:
        y: list or array of numbers, [N] or [N,1]; anything else passes.
        num_classes: int.
    """
    if not isinstance(y, (list, np.ndarray)) and not (tf.is_tensor(y) and hasattr(y, "numpy")):
        return
    rule = f"`y` must hold the number of a class, in [0, {num_classes}), for each example"
    try:
        values = np.asarray(y)
    except ValueError as error:
        raise ValueError(f"{rule}. Received: rows of unequal length") from error
    if values.ndim > 1 and values.shape[1:] != (1,):
        raise ValueError(f"{rule}. Received: numbers of the shape {values.shape}")
    if values.dtype.kind == "O":
        known = np.array([isinstance(value, numbers.Real) for value in values.flat], bool)
        values = np.where(known, values.ravel(), -1).astype(float)
    flat = values.ravel()
    wrong = np.flatnonzero(~((flat >= 0) & (flat < num_classes) & (flat == np.floor(flat))))
    if len(wrong):
        received = np.asarray(y).ravel().tolist()[wrong[0]]
        raise ValueError(f"{rule}. Received: {received!r} at index {wrong[0]}")


def weights_by_number(class_weight, labels, num_classes):
    """Turns a dict, name or number -> weight, into one by number; returns None unchanged.

    Raises:
        ValueError: unless there is a finite weight >= 0 for each class, and for nothing else. Keras would
            stop at the first example of a class that has none, or turn all weights of the model into NaN.
    """
    if class_weight is None:
        return None
    if not isinstance(class_weight, dict):
        raise ValueError(f"`class_weight` must be a dict, class -> weight. Received: {class_weight!r:.100}")
    by_name = any(isinstance(key, str) for key in class_weight)
    keys = (labels or ()) if by_name else range(num_classes)
    if set(class_weight) != set(keys):
        which = _shown(labels) if by_name and labels else f"by its number in [0, {num_classes})"
        raise ValueError(
            f"`class_weight` must have a weight for each class: {which}. Received: {class_weight!r:.100}"
        )
    for key, weight in class_weight.items():
        if not isinstance(weight, numbers.Real) or not 0 <= weight < float("inf"):
            raise ValueError(f"`class_weight` must be finite and >= 0. Received: {weight!r:.100} for {key!r}")
    return {number: class_weight[key] for number, key in enumerate(keys)}


@contextlib.contextmanager
def explained():
    """Wraps a pass over a data set, so that an unknown name in it is a one-line ValueError here too."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        start = error.message.find(_RULE)
        if start < 0:
            raise
        text = error.message[start:].split("\n")[0].replace("\\'", "'").removesuffix("]")
        raise ValueError(text) from error


def _holds_strings(y):
    if isinstance(y, (list, tuple)):
        return any(isinstance(value, (str, bytes)) for value in y) or any(map(_holds_strings, y[:1]))
    kind = getattr(getattr(y, "dtype", None), "kind", None)
    if kind in ("U", "S"):
        return True
    return kind == "O" and any(isinstance(value, (str, bytes)) for value in np.asarray(y).flat)


def _required(labels):
    if labels is None:
        raise ValueError(
            "`y` holds strings, and the classes of this classifier have no names: give it "
            "`labels=[...]`, or numbers in `y`"
        )
    return labels


def _in_graph(y, labels):
    y = tf.reshape(y, [-1])
    found = tf.equal(tf.expand_dims(y, -1), tf.constant(labels))  # [B,C]
    known = tf.reduce_any(found, -1)
    unknown = tf.boolean_mask(y, tf.logical_not(known))
    message = tf.strings.join(
        [f"{_RULE}: {_shown(labels)}. Received: '", tf.strings.reduce_join(unknown[:1]), "'"]
    )
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(known), [message], summarize=1)]):
        return tf.argmax(found, -1, output_type=tf.int32)


def _shown(labels):
    more = f", ... ({len(labels)} in all)" if len(labels) > 8 else ""
    return ", ".join(map(repr, labels[:8])) + more
