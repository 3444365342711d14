"""The options of mixers: finds and checks them, and passes each to the mixers that have it."""

import inspect
import numbers

from convnlp.layers.mixers import MIXERS, SHARED_ARGUMENTS

_OF_THE_SKELETON = {"hidden_dim", "causal", "output_init_scale"}


def options_of(name):
    """Returns the options of a mixer.

    Args:
        name: str, a key of `MIXERS`.

    Returns:
        Dict, option -> default; `inspect.Parameter.empty` if it has none.

    Example:
    >>> options_of("external_attention")
    {'memory_size': 64, 'memory_heads': 1}
    """
    parameters = inspect.signature(MIXERS[name]).parameters.values()
    return {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.name not in _OF_THE_SKELETON and parameter.kind is not parameter.VAR_KEYWORD
    }


def route_options(options, mixers):
    """Passes each option to the mixers of a model that have it.

    Args:
        options: dict, option -> value, for every mixer that has the option; or mixer -> such a dict, for that
            mixer alone, which takes precedence. Values may be text, as from a command line.
        mixers: list of str, the names of the model's mixers.

    Returns:
        Dict, mixer -> dict of its options; each value has the type of the option's default.

    Raises:
        ValueError: if `options` is not a dict, no mixer of the model has an option, or a value has a wrong
            type.

    Example:
    >>> route_options({"num_heads": 2, "muse": {"kernel_sizes": "3,7"}}, ["dynamic_conv", "muse"])
    {'dynamic_conv': {'num_heads': 2}, 'muse': {'num_heads': 2, 'kernel_sizes': [3, 7]}}
    """
    if not hasattr(options, "items"):
        raise ValueError(
            f"`mixer_options` must be a dict of option -> value. Received: mixer_options={options!r}"
        )
    mixers = [name for name in dict.fromkeys(mixers) if name in MIXERS]
    routed = {name: {} for name in mixers}
    for option, value in options.items():
        if option in MIXERS:
            continue
        takers = [name for name in mixers if option in options_of(name)]
        if not takers:
            raise _unknown(option, value, mixers)
        for name in takers:
            routed[name][option] = _typed(option, value, name)
    for name, own in options.items():
        if name not in MIXERS:
            continue
        if name not in routed or not isinstance(own, dict):
            raise ValueError(
                f"`mixer_options.{name}` must be the options of a mixer of the model, one of "
                f"{', '.join(mixers)}. Received: mixer_options.{name}={own!r}"
            )
        for option, value in own.items():
            if option not in options_of(name):
                raise _unknown(option, value, [name], prefix=f"{name}.")
            routed[name][option] = _typed(option, value, name)
    return routed


def options_for(options, mixers):
    """Returns those of a model's options that a part of it needs, with these mixers.

    Args:
        options: dict, as for `route_options`.
        mixers: list of str, the names of the part's mixers.

    Returns:
        Dict, in the form of `options`.

    Example:
    >>> options_for({"num_heads": 2, "muse": {"kernel_sizes": "3,7"}}, ["dynamic_conv"])
    {'num_heads': 2}
    """
    known = {option for name in mixers if name in MIXERS for option in options_of(name)}
    return {key: value for key, value in options.items() if key in (mixers if key in MIXERS else known)}


def _unknown(option, value, mixers, prefix=""):
    known = "; ".join(f"{name} has {', '.join(sorted(options_of(name))) or 'none'}" for name in mixers)
    field = f"mixer_options.{prefix}{option}"
    return ValueError(f"`{field}` must be an option of the mixer: {known}. Received: {field}={value!r}")


def _typed(option, value, mixer):
    """Returns the value in the type of the option's default; text is parsed."""
    default = options_of(mixer)[option]
    if default is inspect.Parameter.empty:  # the shared arguments without a default are sizes
        default = 1 if option in SHARED_ARGUMENTS else None
    for kind, (name, read) in _KINDS.items():
        if isinstance(default, kind):
            typed = read(value)
            if typed is None:
                raise ValueError(
                    f"`mixer_options.{option}` must be {name} for {mixer}. "
                    f"Received: mixer_options.{option}={value!r}"
                )
            return typed
    return list(value) if isinstance(value, tuple) else value


def _bool(value):
    words = {"true": True, "false": False}
    if isinstance(value, str):
        return words.get(value.lower())
    return bool(value) if value in (True, False) else None


def _int(value):
    try:
        value = int(value) if isinstance(value, str) else value
    except ValueError:
        return None
    return int(value) if isinstance(value, numbers.Integral) and not isinstance(value, bool) else None


def _float(value):
    try:
        value = float(value) if isinstance(value, str) else value
    except ValueError:
        return None
    return float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else None


def _str(value):
    return value if isinstance(value, str) else None


def _list(value):
    if isinstance(value, str):
        parts = [part.strip() for part in value.strip("()[] ").split(",")]
        return [part if _int(part) is None else _int(part) for part in parts if part]
    return list(value) if isinstance(value, (list, tuple)) else [value]


# Type of a default -> what an error calls it, and a function that reads a value of it, or returns None if it
# is not one. The order matters: a bool is an int.
_KINDS = {
    bool: ("true or false", _bool),
    int: ("a whole number", _int),
    float: ("a number", _float),
    str: ("text", _str),
    (list, tuple): ("a list", _list),
}
