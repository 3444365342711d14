"""Flags that list numbers, checked before anything is computed."""

import math


def numbers(flag, texts, least, kind=int):
    """Returns the numbers in a list flag.

    Args:
        flag: str, its name.
        texts: list of str, its value.
        least: the smallest number that is allowed.
        kind: `int` for whole numbers, or `float`. Defaults to `int`.

    Returns:
        List of numbers of that kind, at least one.

    Raises:
        ValueError: if there is none, or one is not such a number.

    Example:
    >>> numbers("lengths", ["32", "128"], least=1)
    [32, 128]
    """
    try:
        found = [kind(text) for text in texts]
    except ValueError:
        found = []
    if not found or not all(least <= number < math.inf for number in found):
        raise ValueError(f"`--{flag}` must be numbers of {least:g} or more. Received: {','.join(texts)!r}")
    return found
