"""Flat decoding states made of the states of parts."""


def with_prefix(prefix, state):
    """The state of a part, as entries of the whole's."""
    return {prefix + name: value for name, value in state.items()}


def of_prefix(prefix, state):
    """The state of a part, taken out of the whole's."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
