"""Flat decoding states that are composed of the states of parts."""


def with_prefix(prefix, state):
    """Returns the state of a part with the prefix before its names, for the state of the whole."""
    return {prefix + name: value for name, value in state.items()}


def of_prefix(prefix, state):
    """Returns the state of the part with this prefix, taken from the state of the whole."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
