"""The words of a text, without case and punctuation, and their hashes."""

import functools
import hashlib
import re

import numpy as np

_WORD = re.compile(r"\w+")


def words(text):
    """Returns the words of a text: runs of letters, digits and underscores, with case folded.

    Example:
    >>> words("The Émigrés' 2nd river.")
    ['the', 'émigrés', '2nd', 'river']
    """
    return _WORD.findall(text.casefold())


def hashes(found):
    """Returns hashes of words, uint64 array [n], the same on every machine."""
    return np.fromiter(map(_hash_of, found), np.uint64, len(found))


@functools.lru_cache(maxsize=1 << 17)
def _hash_of(word):
    return int.from_bytes(
        hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
    )
