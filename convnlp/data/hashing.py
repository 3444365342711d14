"""A hash function of whole arrays of numbers."""

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
