"""Examples that two data sets have in common, or almost: a test set should not have been trained on."""

import numpy as np

from convnlp.data.minhash import BASE, band, minima, shingles

SHINGLE = 5  # pieces in a row
NUM_MINIMA, BAND = 16, 4  # of the hashes of a row's shingles; rows are compared that share a band of them
MIN_SHARED = 0.75  # of the minima, an estimate of the Jaccard index of the shingles
MIN_PIECES = 8  # of a text that is compared by shingles; shorter ones have to be equal
MAX_UNKNOWN = 0.2  # share of unknown pieces in a text that is compared at all
PART_TOKENS = 1 << 20  # that are looked at together: the bound of memory


class Pieces:
    """What the pieces of a vocabulary say: their letters and digits, whatever their case.

    Args:
        tokenizer: has `vocabulary_size`, `id_to_token` and `unk_token_id`.
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
        self.lengths = np.array([len(text) for text in kept])
        self.hashes = np.array([_hash_of(text) for text in kept], np.uint64)


def near_duplicates(found, others, pieces):
    """Which examples are equal, or almost equal, to one of others, as far as they are read.

    Equal are texts of the same letters and digits. Almost equal are those whose sets of five pieces in a row
    have much in common by their minima of `NUM_MINIMA` hash functions (Broder, 1997,
    https://doi.org/10.1109/SEQUEN.1997.666900). The time is linear in the number of tokens.

    Args:
        found: `Examples`, of which the first column is compared.
        others: `Examples`.
        pieces: `Pieces` of their vocabulary.

    Returns:
        bool array [n].

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


def _compared(found, pieces):
    """(a hash of each text, uint64 [n], 0 for none; minima of its shingles, uint64 [n,NUM_MINIMA], or 0)."""
    values, splits = found.columns[0].values.numpy(), found.columns[0].row_splits.numpy()
    parts, first = [], 0
    while first < len(splits) - 1:
        end = max(first + 1, int(np.searchsorted(splits, splits[first] + PART_TOKENS, "right")) - 1)
        own = splits[first : end + 1]
        parts.append(_compared_part(values[own[0] : own[-1]], own - own[0], pieces))
        first = end
    equal, signs = zip(*parts, strict=True)
    return np.concatenate(equal), np.concatenate(signs)


def _compared_part(values, splits, pieces):
    count = len(splits) - 1
    row = np.repeat(np.arange(count), np.diff(splits))
    unknown = np.bincount(row[values == pieces.unknown], minlength=count)
    kept = pieces.lengths[values] > 0
    row, values = row[kept], values[kept]
    sizes = np.bincount(row, minlength=count)
    usable = (sizes > 0) & (unknown <= MAX_UNKNOWN * np.maximum(sizes, 1))
    hashes, lengths = pieces.hashes[values], pieces.lengths[values]

    # The hash of a text is that of its pieces, each shifted by the characters behind it in the text.
    ends = np.cumsum(lengths)
    last = ends[np.cumsum(sizes)[row] - 1] if len(row) else ends
    equal = np.zeros(count, np.uint64)
    np.add.at(equal, row, hashes * _powers(last - ends))
    equal[~usable] = 0

    signs = np.zeros([count, NUM_MINIMA], np.uint64)
    runs = shingles(hashes, SHINGLE)
    if len(runs):
        first, final = row[: len(runs)], row[SHINGLE - 1 :]
        whole = (first == final) & (usable & (sizes >= MIN_PIECES))[first]
        runs, first = runs[whole], first[whole]
        starts = np.flatnonzero(np.diff(first, prepend=-1))
        signs[first[starts]] = minima(runs, starts, NUM_MINIMA)
    return equal, signs


def _band(signs, first):
    """A hash of some of the minima of each text, 0 where there are none."""
    return np.where(signs.any(axis=1), band(signs, first, BAND) | np.uint64(1), np.uint64(0))


def _powers(exponents):
    """BASE to the powers, modulo 2**64."""
    table = np.full(int(exponents.max(initial=0)) + 1, BASE)
    table[0] = 1
    return np.cumprod(table, dtype=np.uint64)[exponents]


def _hash_of(text):
    """The hash of a text, modulo 2**64: that of two texts in a row follows from theirs."""
    total = 0
    for character in text:
        total = (total * int(BASE) + ord(character) * 0xD6E8FEB86659FD93 + 1) % 2**64
    return total
