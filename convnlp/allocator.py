"""How the C library keeps memory: what a program frees is kept for the next large array.

By default, glibc maps new pages for arrays above 32 MB and for what does not fit into a thread's pool of
64 MB, and returns them when the array is freed. A step of pre-training then asks for a gigabyte in pages.
"""

import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_MOST_CORES = 8  # whose threads share one pool: more of them might wait for each other


def keep_memory():
    """Lets this process keep up to 2 GiB of what it frees, with few cores in one pool for all threads.

    Call it before the process has threads: those that have a pool keep it. Does nothing if the environment
    has settings for malloc, or if the C library is not glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    is_set = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if mallopt is None or is_set:
        return
    mallopt(_M_MMAP_THRESHOLD, 1 << 30)
    mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
    if (os.cpu_count() or 1) <= _MOST_CORES:
        mallopt(_M_ARENA_MAX, 1)
