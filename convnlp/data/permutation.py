"""A global shuffle by arithmetic: the item at any position can be computed without a table."""

import functools
import math

import numpy as np

from convnlp.data.hashing import mixed

NUM_ROUNDS = 12  # makes all orders of even five items equally likely; with 8, neighbours visibly stay close
MAX_SIZE = 1 << 62  # sums of two numbers below it fit into 64 bits


def permute(positions, size, seed):
    """Returns the original indices of the items at some positions of a shuffled order of `size` items.

    A generalised Feistel network: with a = ceil(sqrt(size)) and b = ceil(size / a), a position x below a*b is
    the pair (l, r) = (x mod a, x div a). Each round shifts one of the two by a hash h of the other and a key,

        l := (l + h(k_1, r)) mod a,    r := (r + h(k_2, l)) mod b,    l := (l + h(k_3, r)) mod a,    ...

    and can be undone by subtracting instead, so the mapping is one-to-one. A result that is not below `size`,
    of which there are a*b - size < a, is mapped again until it is.

    Source: Black and Rogaway, 2002, "Ciphers with Arbitrary Finite Domains", methods 2 and 3,
    https://ia.cr/2001/012. The difference: h is the last step of MurmurHash3, which mixes well but is not
    cryptographic.

    Args:
        positions: integers [n] in [0, size).
        size: int in [1, 2**62].
        seed: int, or sequence of ints, >= 0.

    Returns:
        int64 array [n], different numbers in [0, size) for different positions.

    Raises:
        ValueError: if `size` or a position is out of range.

    Example:
    >>> permute(range(10), 10, seed=0).tolist()
    [0, 1, 8, 6, 7, 5, 9, 4, 3, 2]
    """
    if not 1 <= size <= MAX_SIZE:
        raise ValueError(f"`size` must be an integer in [1, 2**62]. Received: size={size}")
    positions = np.asarray(positions, np.int64)
    if positions.size and not 0 <= positions.min() <= positions.max() < size:
        raise ValueError(
            f"`positions` must be in [0, {size}). Received: {positions.min()} to {positions.max()}"
        )
    keys = _keys(tuple(np.atleast_1d(seed).tolist()))
    a = math.isqrt(size - 1) + 1
    b = -(-size // a)
    found = _rounds(positions.astype(np.uint64), np.uint64(a), np.uint64(b), keys)
    while (outside := found >= size).any():
        found[outside] = _rounds(found[outside], np.uint64(a), np.uint64(b), keys)
    return found.astype(np.int64)


def _rounds(x, a, b, keys):
    right, left = np.divmod(x, a)
    for number, key in enumerate(keys):
        if number % 2 == 0:
            left = (left + mixed(right ^ key) % a) % a
        else:
            right = (right + mixed(left ^ key) % b) % b
    return right * a + left


@functools.lru_cache(maxsize=64)
def _keys(seed):
    return np.random.SeedSequence(seed).generate_state(NUM_ROUNDS, np.uint64)
