"""Finds texts of test sets in a corpus: a model should not be trained on what it is tested on.

A document is removed if it contains 13 consecutive words of a text in a test set, ignoring case and
punctuation. If the text has only 8 to 12 words, the document must contain all of them consecutively; shorter
texts are no evidence.

Source: Brown et al., 2020, "Language Models are Few-Shot Learners" (GPT-3), appendix C,
https://arxiv.org/abs/2005.14165. Departs from it: the whole document is removed, not only the surroundings of
the words; the length is chosen per text, not by the shortest texts of the set; frequent runs count too.
"""

import hashlib

import numpy as np
from absl import logging

from convnlp.corpora.words import hashes, words
from convnlp.data import Source, SourceError, minhash, sources
from convnlp.data.formats import huggingface

LEAST_WORDS, MOST_WORDS = 8, 13


class TestTexts:
    """The texts of test sets, as hashes of runs of their words.

    Args:
        texts: iterable of strings.

    Example:
    >>> found = TestTexts(["The old river crosses the quiet valley near the harbour."])
    >>> [found.are_in(hashes(words(text))) for text in (
    ...     "He says: THE OLD RIVER crosses - the quiet valley near the harbour!", "The old river crosses.")]
    [True, False]
    """

    __test__ = False  # not a class of tests, although pytest would collect it

    def __init__(self, texts):
        runs = {size: [] for size in range(LEAST_WORDS, MOST_WORDS + 1)}
        for text in texts:
            found = hashes(words(text))
            if len(found) >= LEAST_WORDS:
                size = min(len(found), MOST_WORDS)
                runs[size].append(minhash.shingles(found, size))
        self._runs = {size: np.unique(np.concatenate(parts)) for size, parts in runs.items() if parts}

    def __len__(self):
        """The number of different runs of words."""
        return sum(map(len, self._runs.values()))

    def fingerprint(self):
        """Returns a hash of the runs of words, in hex: that of test sets with another text differs."""
        digest = hashlib.sha256()
        for size, known in sorted(self._runs.items()):
            digest.update(b"%d %d\n" % (size, len(known)) + known.astype("<u8").tobytes())
        return digest.hexdigest()[:16]

    def are_in(self, word_hashes):
        """Returns whether a document contains one of the runs; `word_hashes` is from `words.hashes`."""
        for size, known in self._runs.items():
            own = minhash.shingles(word_hashes, size)
            places = np.minimum(np.searchsorted(known, own), len(known) - 1)
            if (known[places] == own).any():
                return True
        return False


def source_of(name):
    """Returns the `Source` of a test set; raises `SourceError` if the name leaves open which split is meant.

    The split of a name is "train" by default, which is not what models are tested on.
    """
    source = Source(name)
    if "{split}" in source.path:
        raise SourceError(f"{name}: a test set must be one split; write its name in place of {{split}}")
    if source.kind == "hf" and huggingface.holds_splits(source.path):
        raise SourceError(f"{name}: a test set must be one split, such as {name.rstrip('/')}/test")
    return source


def texts_of(source, fields=()):
    r"""Returns all texts of a test set; logs if all are too short to be looked for.

    Args:
        source: `convnlp.data.Source` of files.
        fields: sequence of strings, the fields to read; lists of texts are read too. Defaults to all.

    Returns:
        List of strings.

    Raises:
        SourceError: if the source cannot be read, lacks one of the fields, or is `tfds:`.

    Example:
    >>> import pathlib
    >>> _ = pathlib.Path("test.csv").write_text("question,label\nWhat now?,card\n")
    >>> texts_of(Source("csv:test.csv"), ["question"])
    ['What now?']
    """
    if source.kind == "tfds":
        raise SourceError(f"{source}: a test set must consist of files, such as jsonl:GLOB or csv:GLOB")
    rows = [row for row, _ in sources.records(source, ())]
    for field in fields:
        if not any(field in row for row in rows):
            raise SourceError(f"{source}: no field {field!r} (available: {', '.join(map(repr, rows[0]))})")
    found = []
    for row in rows:
        for name, value in row.items():
            if not fields or name in fields:
                found += [str(each) for each in _leaves(value) if isinstance(each, str)]
    if not any(len(words(text)) >= LEAST_WORDS for text in found):
        logging.warning("%s: no text has %d words, so none of them is looked for", source, LEAST_WORDS)
    return found


def _leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [leaf for each in value for leaf in _leaves(each)]
    return [value]
