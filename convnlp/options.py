"""The options of an objective or a task: fields of its dataclass that a config sets by name."""

import dataclasses
import difflib

from convnlp.data.rules import short


def option(default=dataclasses.MISSING, rule=None, *, preset=False, head=True):
    """Makes a field of a dataclass an option.

    Args:
        default: its value if a config sets none.
        rule: `convnlp.data.rules.Rule` that its values must obey, such as `rules.number("[0, 1)")`.
        preset: bool. Whether its value names presets, as a string or a sequence of these. A run then checks
            that they exist before anything is read, and records their sums.
        head: bool. Whether `fit-head` reads it too; if not, it warns of one that is given.

    Returns:
        The field, to assign after the annotation: `smoothing: float = option(0.1, rules.number("[0, 1)"))`.
    """
    return dataclasses.field(default=default, metadata={"rule": rule, "preset": preset, "head": head})


def options_of(cls, **kind):
    """Returns the names of a dataclass's fields that were made by `option`, with these of its arguments."""
    of_each = {field.name: field.metadata for field in dataclasses.fields(cls)}
    return [name for name, found in of_each.items() if "rule" in found and kind.items() <= found.items()]


def check_names(given, known, what):
    """Raises ValueError for an option that does not exist, and suggests the one that was probably meant.

    Args:
        given: iterable of str.
        known: list of str.
        what: str, the owner of the options, such as "objective masked_lm".
    """
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"The {what} has no option `{name}`; it has {', '.join(known) or 'none'}{hint}")


def check_values(cls, values):
    """Raises ValueError for the first option whose value breaks its rule.

    Args:
        cls: a dataclass with a `name`.
        values: dict, name of a field -> value. Fields without a rule pass.
    """
    for field in dataclasses.fields(cls):
        rule = field.metadata.get("rule")
        if rule is not None and field.name in values and not rule.holds(values[field.name]):
            raise ValueError(
                f"`{field.name}` of {cls.name} must be {rule.text}. "
                f"Received: {field.name}={short(values[field.name])}"
            )
