"""Reads BLiMP: pairs of sentences that differ in one point of grammar, by paradigm and phenomenon."""

import dataclasses
import json
import pathlib

import numpy as np

FIELDS = ("sentence_good", "sentence_bad", "UID", "linguistics_term")


@dataclasses.dataclass(frozen=True)
class Paradigm:
    """The pairs of one file.

    Args:
        name: str.
        phenomenon: str, which comprises several paradigms.
        pairs: tuple of (acceptable sentence, unacceptable one).
    """

    name: str
    phenomenon: str
    pairs: tuple


def read(directory, most_pairs):
    """Reads the paradigms of a directory of JSON-lines files, one per file, in the order of their names.

    Reference: Warstadt et al., 2020, "BLiMP: The Benchmark of Linguistic Minimal Pairs for English",
    https://arxiv.org/abs/1912.00582. The files: https://github.com/alexwarstadt/blimp, CC-BY 4.0.

    Args:
        directory: str or path.
        most_pairs: int, how many pairs of each file are read: the first ones.

    Returns:
        List of `Paradigm`.

    Raises:
        ValueError: if there are no such files, or if one has rows of another form; the message names the
            line.
    """
    paths = sorted(pathlib.Path(directory).glob("*.jsonl"))
    if not paths:
        raise ValueError(f"`--data_dir` must hold BLiMP's *.jsonl files. Received: {directory}")
    return [_paradigm(path, most_pairs) for path in paths]


def _paradigm(path, most_pairs):
    rows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if number > most_pairs:
                break
            try:
                row = json.loads(line)
                rows.append([row[field] for field in FIELDS])
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"{path}, line {number}: must be a JSON object with {', '.join(FIELDS)}. "
                    f"Received: {line.strip()[:80]}"
                ) from error
    names = {tuple(row[2:]) for row in rows}
    if len(names) != 1:
        raise ValueError(f"{path}: must hold the pairs of one paradigm. Received: {len(names)} paradigms")
    ((name, phenomenon),) = names
    return Paradigm(name, phenomenon, tuple((good, bad) for good, bad, *_ in rows))


def mean_accuracy(counts):
    """Returns the unweighted mean over paradigms, and its standard error.

    The paradigms are fixed; only the pairs are a sample.

    Args:
        counts: dict, name of a paradigm -> (pairs judged correctly, all pairs).

    Returns:
        (mean, standard error), floats.

    Example:
    >>> mean, error = mean_accuracy({"a": (3, 4), "b": (1, 2)})
    >>> round(mean, 3), round(error, 3)
    (0.625, 0.207)
    """
    right, total = np.array(list(counts.values()), float).T
    shares = right / total
    error = np.sqrt(np.sum(shares * (1 - shares) / total)) / len(shares)
    return float(shares.mean()), float(error)
