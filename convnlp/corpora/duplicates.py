"""Near-duplicates: documents that share most of their runs of five words with an earlier one.

A document belongs to several groups, each named by a band of minima of its shingles. With b bands of r
minima, two documents with Jaccard index s share a group with probability 1 - (1 - s^r)^b: 0.9996 at 0.8 with
20 bands of 5. Lower thresholds need shorter bands, see `band_size`. Within a group, each document is compared
with earlier ones by all of its minima; the share of equal minima estimates s with a standard deviation of at
most 0.05.

Source: Leskovec, Rajaraman and Ullman, 2020, "Mining of Massive Datasets", sections 3.3 and 3.4,
http://www.mmds.org. Departs from it: only the last 16 bits of the minima are kept, which agree by chance once
in 65,536. An index such as datasketch's is not used, because it lives in the memory of one process.
"""

import hashlib

import numpy as np

from convnlp.data import minhash

SHINGLE = 5  # words
NUM_MINIMA, LARGEST_BAND = 100, 5
MIN_SIMILARITY = 0.8
LEAST_RECALL = 0.95  # of pairs that are just similar enough, the share that has a group in common
MOST_COMPARED = 100  # documents of a group that others are compared with, which bounds its time
_EXACT, _BAND = b"=", b"~"  # prefixes of the names of groups: of documents with the same words, of a band


def recall(similarity, size):
    """Returns the probability that two documents of this Jaccard index share a group.

    Args:
        similarity: float in [0, 1].
        size: int, the number of minima in a band.
    """
    return 1 - (1 - similarity**size) ** (NUM_MINIMA // size)


def band_size(min_similarity):
    """Returns the largest number of minima in a band, up to 5, with a high enough recall at this similarity.

    Long bands put fewer documents together that have little in common. Below 0.03, even 1 is too many.

    Example:
    >>> [band_size(each) for each in (0.8, 0.6, 0.5, 0.3, 0.1)]
    [5, 4, 3, 2, 1]
    """
    fits = [size for size in range(1, LARGEST_BAND + 1) if recall(min_similarity, size) >= LEAST_RECALL]
    return max(fits, default=1)


def keys(text, word_hashes, min_similarity=MIN_SIMILARITY):
    """Returns the groups that a document belongs to, and its signature for comparisons in them.

    Args:
        text: string. A document without words is a duplicate of those with the same text.
        word_hashes: uint64 array [n], see `words.hashes`.
        min_similarity: float in (0, 1], see `repeated`. Defaults to 0.8.

    Returns:
        (list of bytes, the names of the groups; bytes, the last 16 bits of its minima, or b"" if it has fewer
        words than a shingle, so that only the same words are a duplicate).

    Example:
    >>> from convnlp.corpora.words import hashes, words
    >>> texts = ("the old river " * n for n in (3, 4))
    >>> (names, signature), (others, _) = (keys(text, hashes(words(text))) for text in texts)
    >>> len(names), len(signature), len({*names} & {*others})
    (21, 200, 20)
    """
    whole = word_hashes.tobytes() or text.strip().encode("utf-8", "surrogatepass")
    names = [_EXACT + hashlib.blake2b(whole, digest_size=12).digest()]
    runs = minhash.shingles(word_hashes, SHINGLE)
    if not len(runs):
        return names, b""
    signs = minhash.minima(runs, np.array([0]), NUM_MINIMA)  # [1,M]
    size = band_size(min_similarity)
    for number in range(NUM_MINIMA // size):
        (name,) = minhash.band(signs, number * size, size).tolist()
        names.append(_BAND + bytes([number]) + name.to_bytes(8, "big"))
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
