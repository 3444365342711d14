"""Finds examples that two data sets share, exactly or nearly: a test set should not have been trained on."""

import typing

import numpy as np

from convnlp.data import hashing
from convnlp.data.minhash import BASE, band, minima, shingles

SHINGLE = 5  # consecutive pieces
NUM_MINIMA, BAND = 16, 4  # minima per row, and per band; only rows that share a band are compared
MIN_SHARED = 0.75  # of the minima, an estimate of the Jaccard index of the shingles
MIN_PIECES = 8  # in a text that is compared by shingles; shorter texts must be equal
MAX_UNKNOWN = 0.2  # share of unknown pieces; texts with more are not compared at all
PART_TOKENS = 1 << 20  # processed together, which bounds the memory


class Pieces:
    """The letters and digits of a vocabulary's pieces, ignoring case.

    Args:
        tokenizer: has `vocabulary_size`, `id_to_token`, `pad_token_id`, `end_token_id` and `unk_token_id`.
    """

    def __init__(self, tokenizer):
        texts = [tokenizer.id_to_token(number) for number in range(tokenizer.vocabulary_size())]
        special = {tokenizer.pad_token_id, tokenizer.end_token_id}
        kept = [
            "" if number in special else "".join(filter(str.isalnum, text.casefold()))
            for number, text in enumerate(texts)
        ]
        kept[tokenizer.unk_token_id] = "?"
        self.unknown = tokenizer.unk_token_id
        self.are_visible = np.array([bool(text.strip("▁")) for text in texts])  # also marks
        self.are_visible[[*special, self.unknown]] = False
        self.lengths = np.array([len(text) for text in kept])
        self.hashes = np.array([_hash_of(text) for text in kept], np.uint64)


def near_duplicates(found, others, pieces):
    """Finds the examples that equal, or nearly equal, one of `others`, as far as they are read.

    Two texts are equal if they have the same letters and digits. They are nearly equal if their sets of five
    consecutive pieces overlap much, as estimated by the minima of `NUM_MINIMA` hash functions (Broder, 1997,
    https://doi.org/10.1109/SEQUEN.1997.666900). The time is linear in the number of tokens.

    Args:
        found: `Examples`; the first column is compared.
        others: `Examples`; the first column is compared.
        pieces: `Pieces` of their vocabulary.

    Returns:
        bool array [n], True for the duplicates in `found`.

    Example:
    >>> from convnlp.data.examples import Examples
    >>> texts = "The old river.", "the old river", "The old garden."
    >>> rows = [Examples((tokenizer.ragged([text]),), (32,)) for text in texts]
    >>> pieces = Pieces(tokenizer)
    >>> [bool(near_duplicates(rows[0], other, pieces)[0]) for other in rows[1:]]
    [True, False]
    """
    (equal, signs), (other_equal, other_signs) = (_compared(each, pieces) for each in (found, others))
    is_found = (equal != 0) & np.isin(equal, other_equal)
    for first in range(0, NUM_MINIMA, BAND):
        bands, other_bands = (_band(each, first) for each in (signs, other_signs))
        known = np.flatnonzero(other_bands)
        known = known[np.argsort(other_bands[known], kind="stable")]
        if not len(known):
            break
        places = np.searchsorted(other_bands[known], bands)
        match = known[np.minimum(places, len(known) - 1)]
        shared = np.mean(signs == other_signs[match], axis=1)
        is_found |= (bands != 0) & (bands == other_bands[match]) & (shared >= MIN_SHARED)
    return is_found


def equal_rows(found, others, pieces):
    """Finds the examples of the same tokens as one of `others`, also those that `near_duplicates` leaves out.

    These have no letters, or too many unknown pieces. Texts of unknown pieces alone may differ, and do not
    count.

    Args:
        found: as for `near_duplicates`.
        others: as for `near_duplicates`.
        pieces: as for `near_duplicates`.

    Returns:
        bool array [n].
    """
    ids = found.columns[0]
    rows = np.repeat(np.arange(len(found)), ids.row_lengths().numpy())
    num_visible = np.bincount(rows, pieces.are_visible[ids.values.numpy()], minlength=len(found))
    return (num_visible > 0) & np.isin(hashing.of_rows(ids), hashing.of_rows(others.columns[0]))


def hashes(found, pieces):
    """Returns a hash of the letters and digits of each text, ignoring case; equal texts share it.

    Args:
        found: `Examples`, n of them; the first column is read.
        pieces: `Pieces` of their vocabulary.

    Returns:
        uint64 array [n]; 0 for a text that is not compared, as it has no letters or too much is unknown.

    Example:
    >>> from convnlp.data.examples import Examples
    >>> rows = tokenizer.ragged(["The old river.", "the old river", "The old garden."])
    >>> first, second, third = hashes(Examples((rows,), (32,)), Pieces(tokenizer))
    >>> bool(first == second), bool(first == third)
    (True, False)
    """
    return np.concatenate([_hashes(part, pieces) for part in _parts(found, pieces)])


def _compared(found, pieces):
    """Returns (hashes of texts, uint64 [n]; minima of their shingles, uint64 [n,NUM_MINIMA]); 0 for none."""
    parts = [(_hashes(part, pieces), _signs(part, pieces)) for part in _parts(found, pieces)]
    equal, signs = zip(*parts, strict=True)
    return np.concatenate(equal), np.concatenate(signs)


class _Part(typing.NamedTuple):
    """Some texts: of each piece with letters or digits, its row and id; of each row, how many it has."""

    rows: np.ndarray
    values: np.ndarray
    sizes: np.ndarray
    usable: np.ndarray  # whether the row is compared


def _parts(found, pieces):
    values, splits = found.columns[0].values.numpy(), found.columns[0].row_splits.numpy()
    first = 0
    while first < len(splits) - 1:
        end = max(first + 1, int(np.searchsorted(splits, splits[first] + PART_TOKENS, "right")) - 1)
        yield _part(values[splits[first] : splits[end]], np.diff(splits[first : end + 1]), pieces)
        first = end


def _part(values, lengths, pieces):
    count = len(lengths)
    rows = np.repeat(np.arange(count), lengths)
    unknown = np.bincount(rows[values == pieces.unknown], minlength=count)
    kept = pieces.lengths[values] > 0
    rows, values = rows[kept], values[kept]
    sizes = np.bincount(rows, minlength=count)
    return _Part(rows, values, sizes, (sizes > 0) & (unknown <= MAX_UNKNOWN * np.maximum(sizes, 1)))


def _hashes(part, pieces):
    # The hash of a text is the sum of those of its pieces, each shifted by the number of characters after it.
    ends = np.cumsum(pieces.lengths[part.values])
    last = ends[np.cumsum(part.sizes)[part.rows] - 1] if len(part.rows) else ends
    found = np.zeros(len(part.sizes), np.uint64)
    np.add.at(found, part.rows, pieces.hashes[part.values] * _powers(last - ends))
    found[~part.usable] = 0
    return found


def _signs(part, pieces):
    signs = np.zeros([len(part.sizes), NUM_MINIMA], np.uint64)
    runs = shingles(pieces.hashes[part.values], SHINGLE)
    if len(runs):
        first, final = part.rows[: len(runs)], part.rows[SHINGLE - 1 :]
        whole = (first == final) & (part.usable & (part.sizes >= MIN_PIECES))[first]
        runs, first = runs[whole], first[whole]
        starts = np.flatnonzero(np.diff(first, prepend=-1))
        signs[first[starts]] = minima(runs, starts, NUM_MINIMA)
    return signs


def _band(signs, first):
    """Returns a hash of some minima of each text, 0 if the text has none."""
    return np.where(signs.any(axis=1), band(signs, first, BAND) | np.uint64(1), np.uint64(0))


def _powers(exponents):
    """Returns BASE to these powers, modulo 2**64."""
    table = np.full(int(exponents.max(initial=0)) + 1, BASE)
    table[0] = 1
    return np.cumprod(table, dtype=np.uint64)[exponents]


def _hash_of(text):
    """Returns the hash of a text, modulo 2**64; that of two concatenated texts follows from theirs."""
    total = 0
    for character in text:
        total = (total * int(BASE) + ord(character) * 0xD6E8FEB86659FD93 + 1) % 2**64
    return total
