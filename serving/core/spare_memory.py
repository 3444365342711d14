"""Returns memory to the system that the C library keeps for later use."""

import ctypes


def give_back():
    """Returns freed memory to the system, if the C library has a function for that.

    Reading a model and warming it up takes more memory than the model itself, and glibc does not return it by
    itself.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
