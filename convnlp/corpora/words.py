"""The words of a text, without case and punctuation, and their hashes."""

import functools
import hashlib
import re
import sys
import unicodedata

import numpy as np

# Such as the vowel signs of Hindi and Thai, which stand within words.
_MARKS = "".join(
    character
    for character in map(chr, range(sys.maxunicode + 1))
    if unicodedata.category(character) in ("Mn", "Mc")
)
_WORD = re.compile(rf"\w[\w{_MARKS}]*")


def words(text):
    """Returns the words of a text: runs of letters with their marks, digits and underscores.

    Case is folded, and a text in another normal form of Unicode has the same words (NFKC).

    Example:
    >>> words("The Émigrés' 2nd river.")
    ['the', 'émigrés', '2nd', 'river']
    """
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def hashes(found):
    """Returns hashes of words, uint64 array [n], the same on every machine."""
    return np.fromiter(map(_hash_of, found), np.uint64, len(found))


@functools.lru_cache(maxsize=1 << 17)
def _hash_of(word):
    return int.from_bytes(
        hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
    )
