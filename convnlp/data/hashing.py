"""Hash functions of whole arrays of numbers, and of their rows."""

import hashlib
import itertools

import numpy as np


def mixed(values):
    """Hashes 64-bit numbers by the last step of MurmurHash3, which is one-to-one.

    Args:
        values: uint64 array.

    Returns:
        uint64 array of the same shape.
    """
    for shift in (33, 29):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(0xFF51AFD7ED558CCD)
    return values ^ (values >> np.uint64(32))


def of_rows(rows):
    """Returns a hash of each row of a ragged int tensor [n,...]: uint64 [n]."""
    values, splits = rows.values.numpy(), rows.row_splits.numpy()
    digests = (
        hashlib.blake2b(values[start:end].tobytes() + b"|", digest_size=8).digest()
        for start, end in itertools.pairwise(splits)
    )
    return np.fromiter((int.from_bytes(each, "big") for each in digests), np.uint64, len(splits) - 1)
