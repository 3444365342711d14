"""Near-duplicates: documents that share most of their runs of five words with an earlier one.

A document belongs to `NUM_BANDS` groups, each named by a band of `BAND` minima of its shingles. Two documents
with Jaccard index s share a group with probability 1 - (1 - s^BAND)^NUM_BANDS, which is 0.47 at 0.5, 0.975 at
0.7 and 0.9996 at 0.8. Within a group, each document is compared with earlier ones by all of its minima; the
share of equal minima estimates s with a standard deviation of at most 0.05.

Source: Leskovec, Rajaraman and Ullman, 2020, "Mining of Massive Datasets", sections 3.3 and 3.4,
http://www.mmds.org. Departs from it: only the last 16 bits of the minima are kept, which agree by chance once
in 65,536. An index such as datasketch's is not used, because it lives in the memory of one process.
"""

import hashlib

import numpy as np

from convnlp.data import minhash

SHINGLE = 5  # words
NUM_BANDS, BAND = 20, 5
NUM_MINIMA = NUM_BANDS * BAND
MIN_SIMILARITY = 0.8
MOST_COMPARED = 100  # documents of a group that others are compared with, which bounds its time
_EXACT = b"="  # prefix of the names of groups whose documents have the same words


def keys(word_hashes):
    """Returns the groups that a document belongs to, and its signature for comparisons in them.

    Args:
        word_hashes: uint64 array [n], see `words.hashes`.

    Returns:
        (list of bytes, the names of the groups; bytes, the last 16 bits of its minima, or b"" if it has fewer
        words than a shingle, so that only the same words are a duplicate).

    Example:
    >>> from convnlp.corpora.words import hashes, words
    >>> (names, signature), (others, _) = (keys(hashes(words("the old river " * n))) for n in (3, 4))
    >>> len(names), len(signature), len({*names} & {*others})
    (21, 200, 20)
    """
    names = [_EXACT + hashlib.blake2b(word_hashes.tobytes(), digest_size=12).digest()]
    runs = minhash.shingles(word_hashes, SHINGLE)
    if not len(runs):
        return names, b""
    signs = minhash.minima(runs, np.array([0]), NUM_MINIMA)  # [1,M]
    for number in range(NUM_BANDS):
        (name,) = minhash.band(signs, number * BAND, BAND).tolist()
        names.append(bytes([number]) + name.to_bytes(8, "big"))
    return names, (signs[0] & np.uint64(0xFFFF)).astype("<u2").tobytes()


def repeated(name, members, min_similarity=MIN_SIMILARITY):
    """Returns the documents of a group that repeat an earlier one.

    Args:
        name: bytes, name of the group.
        members: iterable of (place, signature): places can be anything with an order, which decides which
            document is the earlier one; signatures are from `keys`.
        min_similarity: float in (0, 1], the share of equal minima from which a document counts as a
            near-duplicate. Defaults to 0.8.

    Returns:
        List of (place, "duplicate" or "near_duplicate").

    Example:
    >>> repeated(b"=", [(2, b""), (1, b""), (3, b"")])
    [(2, 'duplicate'), (3, 'duplicate')]
    """
    ordered = sorted(members)
    if name.startswith(_EXACT):
        return [(place, "duplicate") for place, _ in ordered[1:]]
    kept, found = np.zeros([0, NUM_MINIMA], np.uint16), []
    for place, signature in ordered:
        signs = np.frombuffer(signature, "<u2")
        if len(kept) and (kept == signs).mean(axis=1).max() >= min_similarity:
            found.append((place, "near_duplicate"))
        elif len(kept) < MOST_COMPARED:
            kept = np.concatenate([kept, signs[np.newaxis]])
    return found
