"""Checks the arguments that both clients take, before anything is sent."""

import numbers


def check_model(model, version=None, label=None):
    """Raises ValueError if a model has no name, or a version is out of range or beside a label."""
    if not model:
        raise ValueError(f"`model` must be a name. Received: {model!r}")
    if version is not None and label is not None:
        raise ValueError(
            f"only one of `version` and `label` can be given. Received: version={version}, label={label!r}"
        )
    is_whole = isinstance(version, numbers.Integral) and not isinstance(version, bool)
    if version is not None and not (is_whole and 0 <= version < 2**63):
        raise ValueError(f"`version` must be a whole number in [0, 2**63). Received: version={version!r}")


def listed(name, examples):
    """Returns the examples as a list.

    Raises:
        ValueError: if they are a single one, whose letters or keys would be taken for examples.
    """
    examples = examples.tolist() if hasattr(examples, "tolist") else examples
    if isinstance(examples, str | bytes | dict) or not hasattr(examples, "__iter__"):
        raise ValueError(f"`{name}` must be a list with one element per example. Received: {examples!r:.100}")
    return list(examples)


def plain(value):
    """Returns a value with lists in place of tuples and of whatever has `tolist`, such as NumPy's arrays."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value
