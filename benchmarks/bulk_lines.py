"""Numbered lines of real text, and a check that a bulk prediction has each line once with the right answer.

The lines are those of Python's documentation, repeated if there are too few. They are written to three
files, one of them compressed, and some lines are bad in one of four ways.
"""

import gzip
import itertools
import json
import pathlib

import numpy as np
import tensorflow as tf

from convnlp.data import pydocs

BAD = (b"\n", b'{"id": 1, "text": \n', b'{"id": 2}\n', b"\xff\n")
_PLACES = 50  # number of places with bad lines, one of each kind
_LEAST_CHARACTERS = 21
_BATCH = 256
# In another batch, padded to another length, float32 sums of the same text have another order.
_TOLERANCE = 1e-5


class Lines:
    """Numbered lines, some of them bad.

    Args:
        count: int, number of lines, >= 1000.
    """

    def __init__(self, count):
        with gzip.open(pydocs.path(), "rt", encoding="utf-8") as file:
            documents = [json.loads(line)["text"] for line in file]
        self._texts = [
            line for text in documents for line in text.splitlines() if len(line) >= _LEAST_CHARACTERS
        ]
        self._count = count

    def __len__(self):
        return self._count

    def text(self, number):
        """Returns the text of the line with this number, counted from 0."""
        return self._texts[number % len(self._texts)]

    def bad(self, number):
        """Returns the bytes that replace the line if it is a bad one, otherwise None."""
        place = number % (self._count // _PLACES)
        return BAD[place] if place < len(BAD) else None

    def files(self):
        """Returns (name, number of its first line, number of lines) of each file, in the order of names."""
        first, second = self._count * 6 // 10, self._count * 5 // 100
        return [
            ("a.jsonl", 0, first),
            ("b.jsonl", first, second),
            ("c.jsonl.gz", first + second, self._count - first - second),
        ]

    def write(self, folder):
        """Writes the files."""
        for name, first, count in self.files():
            open_file = gzip.open if name.endswith(".gz") else open
            with open_file(pathlib.Path(folder, name), "wb") as file:
                for number in range(first, first + count):
                    row = {"id": number, "text": self.text(number)}
                    file.write(self.bad(number) or json.dumps(row).encode() + b"\n")


def check(lines, folder, model):
    """Compares an output of `convnlp.batch_predict` with the lines, and its answers with a plain loop's.

    Args:
        lines: `Lines`.
        folder: path, the output, shards of JSON Lines.
        model: path, the SavedModel.

    Returns:
        dict of int: `once`, lines with exactly one answer, or one reason if they are bad; `missing`;
        `repeated`; `misplaced`, rows whose file, line, text or kind is not that of the line; `wrong`,
        answers that differ from those of the plain loop; `partial`, incomplete files.
    """
    times = np.zeros(len(lines), np.int64)
    misplaced = wrong = 0
    loaded = tf.saved_model.load(str(model))
    predict = loaded.signatures["serving_default"]
    places = {name: (first, count) for name, first, count in lines.files()}
    for row in _rows(folder, "bad"):
        number = _number(row, places)
        is_right = number is not None and lines.bad(number) is not None
        misplaced += not is_right
        if is_right:
            times[number] += 1
    rows = _rows(folder, "predictions")
    while batch := list(itertools.islice(rows, _BATCH)):
        known = []
        for row in batch:
            number = _number(row, places)
            fields = None if number is None else {"id": number, "text": lines.text(number)}
            if fields is None or lines.bad(number) is not None or row["input"] != fields:
                misplaced += 1
            else:
                times[number] += 1
                known.append(row)
        if known:
            answers = predict(text=tf.constant([row["input"]["text"] for row in known]))
            scores = np.array([row["scores"] for row in known])
            near = np.abs(scores - answers["scores"].numpy()).max(axis=1) < _TOLERANCE
            # Two scores that are nearly equal may swap ranks.
            tied = np.ptp(scores, axis=1) < _TOLERANCE
            labels = np.array([row["label"].encode() for row in known], object)
            wrong += int((~(near & (tied | (labels == answers["label"].numpy())))).sum())
    return {
        "once": int((times == 1).sum()),
        "missing": int((times == 0).sum()),
        "repeated": int((times > 1).sum()),
        "misplaced": misplaced,
        "wrong": wrong,
        "partial": sum(".partial-" in path.name for path in pathlib.Path(folder).iterdir()),
    }


def _number(row, places):
    """Returns the number of a row's line, or None if there is no such line."""
    first, count = places.get(pathlib.Path(row["file"]).name, (0, 0))
    return first + row["line"] - 1 if 1 <= row["line"] <= count else None


def _rows(folder, kind):
    for path in sorted(pathlib.Path(folder).glob(f"{kind}-*.jsonl")):
        with open(path, encoding="utf-8") as file:
            yield from map(json.loads, file)
