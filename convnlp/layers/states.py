"""Flat decoding states that are composed of the states of parts."""


def nest(part, state):
    """Returns the state of a part under the names that it has in the state of the whole, part/name.

    Example:
    >>> nest("mixing", {"inputs": 1})
    {'mixing/inputs': 1}
    """
    return {f"{part}/{name}": value for name, value in state.items()}


def unnest(part, state):
    """Returns the state of a part, taken from the state of the whole.

    Example:
    >>> unnest("mixing", {"mixing/inputs": 1, "cross/key": 2})
    {'inputs': 1}
    """
    start = f"{part}/"
    return {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}
