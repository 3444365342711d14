"""Returns memory to the system that the C library keeps for later."""

import ctypes


def give_back():
    """Returns what has been freed, where the C library can: glibc does not by itself.

    What it takes to read a model and to warm it up is more than what stays of it.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
