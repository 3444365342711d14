"""Summarises sets of shingles in a few numbers, from which the overlap of two sets can be estimated.

Source: Broder, 1997, "On the resemblance and containment of documents",
https://doi.org/10.1109/SEQUEN.1997.666900.
"""

import numpy as np

from convnlp.data.hashing import mixed

BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, with many bits


def shingles(hashes, size):
    """Returns the hashes of all runs of `size` consecutive items.

    Args:
        hashes: uint64 array [n], a hash of each item.
        size: int >= 1.

    Returns:
        uint64 array [n - size + 1]; empty if there are fewer items.
    """
    number = max(len(hashes) - size + 1, 0)
    found = np.zeros(number, np.uint64)
    for place in range(size):
        found = found * BASE + hashes[place : place + number]
    return found


def minima(values, starts, count):
    """Returns the minima of `count` hash functions over each of several sets.

    The share of equal minima of two sets estimates their Jaccard index.

    Args:
        values: uint64 array [n], the sets one after the other, each with at least one value.
        starts: int array [s], where each set begins.
        count: int.

    Returns:
        uint64 array [s,count].
    """
    found = np.zeros([len(starts), count], np.uint64)
    for place in range(count if len(starts) else 0):
        hashes = mixed(values + np.uint64(place * int(BASE) % 2**64))
        found[:, place] = np.minimum.reduceat(hashes, starts)
    return found


def band(signs, first, size):
    """Returns a hash of some minima of each set; only sets that share a band are compared.

    Args:
        signs: uint64 array [s,count], as from `minima`.
        first: int. The first of the minima.
        size: int. How many of them.

    Returns:
        uint64 array [s].
    """
    found = np.zeros(len(signs), np.uint64)
    for place in range(first, first + size):
        found = found * BASE + signs[:, place]
    return found
