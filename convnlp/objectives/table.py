"""The table of objectives, and the functions that read it."""

import collections.abc
import dataclasses

from convnlp import tables
from convnlp.data.rules import short
from convnlp.objectives.masked_lm import MaskedLanguageModeling
from convnlp.objectives.objective import Objective
from convnlp.objectives.prefix_lm import PrefixLanguageModeling
from convnlp.objectives.span_corruption import SpanCorruption
from convnlp.objectives.unilm import UnifiedLanguageModeling
from convnlp.options import check_names

# Random seeds and the sum of the losses depend on the order: a new objective goes to the end.
OBJECTIVES = {
    cls.name: cls
    for cls in (SpanCorruption, MaskedLanguageModeling, PrefixLanguageModeling, UnifiedLanguageModeling)
}

# Options that a config also sets for all objectives at once, as fields of its `objective`.
SHARED_OPTIONS = ("noise_density", "mean_span_length")


def build_objectives(names, input_length, options=None, **shared):
    """Returns the objectives of a run, in the order of the table.

    Args:
        names: sequence of str, keys of `OBJECTIVES`.
        input_length: int. S, for objectives that have none of their own.
        options: dict, name of an objective -> dict of its own options.
        **shared: options, such as `noise_density`, for every objective that has them and does not set them in
            `options`.

    Returns:
        Tuple of `Objective`.

    Raises:
        ValueError: if a name or an option is unknown, a name is given twice, or an option is out of range.

    Example:
    >>> build_objectives(["masked_lm"], 128, {"masked_lm": {"noise_density": 0.4}})
    (MaskedLanguageModeling(input_length=128, weight=1.0, noise_density=0.4),)
    """
    names, options = tuple(names), dict(options or {})
    unknown = sorted(set(names) - set(OBJECTIVES))
    if unknown or not names:
        raise ValueError(
            f"`objective.names` must be one or more of {', '.join(OBJECTIVES)}. Received: {names}"
        )
    if len(set(names)) < len(names):
        raise ValueError(f"`objective.names` must name each objective once. Received: {names}")
    unused = sorted(set(options) - set(names))
    if unused:
        raise ValueError(
            "`objective.options` must name objectives of `objective.names`, which are "
            f"{', '.join(names)}. Received: {unused[0]}"
        )
    for name, own in options.items():
        if not isinstance(own, collections.abc.Mapping):
            raise ValueError(
                f"`objective.options.{name}` must be a dict of the options of {name}. "
                f"Received: objective.options.{name}={short(own)}"
            )
    built = []
    for name in (name for name in OBJECTIVES if name in names):
        own = dict(options.get(name, {}))
        fields = [field.name for field in dataclasses.fields(OBJECTIVES[name])]
        check_names(own, fields, f"objective {name}")
        taken = {key: value for key, value in shared.items() if key in fields}
        built.append(OBJECTIVES[name](**{"input_length": input_length, **taken, **own}))
    return tuple(built)


def register_objective(cls):
    """Adds an objective of your own to `OBJECTIVES`, under its `name`.

    It holds for this process: a program does it for the modules of `--modules`.

    Args:
        cls: a subclass of `Objective`, a frozen dataclass with a `name`. Running the same definition again,
            as in a notebook, replaces it.

    Returns:
        `cls`, so that the function can serve as a decorator.

    Raises:
        ValueError: if it is not such a class, or if its name is taken.
    """
    return tables.register(OBJECTIVES, Objective, cls)
