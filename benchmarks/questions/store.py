"""The finished cells that docs/paper.json keeps, so that none is computed twice where a directory is lost."""

import json
import pathlib

import numpy as np

from benchmarks.comparison import cells
from convnlp.training import storage

_LEFT_OUT = ("lengths",)  # of each test text: large, and found again by reading the texts


class Store:
    """The results of a working directory and of the JSON file.

    Args:
        workdir: pathlib.Path.
        path: pathlib.Path of the JSON file, which need not be there.
    """

    def __init__(self, workdir, path):
        self._workdir, self._path = workdir, path
        self.known = {}
        if path.exists():
            self.known = json.loads(path.read_text(encoding="utf-8"))["cells"]

    def restore(self):
        """Puts what only the file knows into the working directory, as if it had been computed there."""
        for name, found in self.known.items():
            directory = cells.directory_of(name, self._workdir)
            if not (directory / "result.json").exists():
                directory.mkdir(parents=True, exist_ok=True)
                storage.write_json(directory / "settings.json", found["settings"])
                storage.write_json(directory / "result.json", unpacked(found["result"]))

    def take(self, wanted):
        """Adds what the working directory has of some cells.

        Args:
            wanted: iterable of `Cell`.
        """
        for cell in wanted:
            result = cell.result(self._workdir)
            if result is not None:
                self.known[cell.name] = {
                    "kind": cell.kind,
                    "settings": cell.settings,
                    "result": packed(result),
                }

    def result(self, cell):
        """The result of a cell, or None."""
        found = self.known.get(cell.name)
        return found and unpacked(found["result"])

    def write(self, machine):
        """Writes the file, a line for each cell.

        Args:
            machine: dict that says what they were computed on.
        """
        lines = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in sorted(self.known.items())]
        body = ",\n".join(lines)
        text = f'{{"machine": {json.dumps(machine)},\n"cells": {{\n{body}\n}}}}\n'
        pathlib.Path(self._path).parent.mkdir(parents=True, exist_ok=True)
        storage.write(str(self._path), text.encode())


def packed(result):
    """A result as it is kept: which test texts were right as bits in hexadecimal, metrics with five digits.

    Example:
    >>> packed({"hits": [1, 0, 1, 1, 0, 0, 0, 0, 1], "curve": [[10, 0.1234567]], "lengths": [3]})
    {'hits': {'num_texts': 9, 'bits': 'b080'}, 'curve': [[10, 0.12346]]}
    """
    kept = {name: value for name, value in result.items() if name not in _LEFT_OUT}
    if "hits" in kept:
        bits = np.packbits(np.asarray(kept["hits"], "uint8")).tobytes().hex()
        kept["hits"] = {"num_texts": len(result["hits"]), "bits": bits}
    if "curve" in kept:
        kept["curve"] = [[step, round(value, 5)] for step, value in kept["curve"]]
    return kept


def unpacked(result):
    """The result that was packed; the lengths of its texts are gone, and hits are a list of 0 and 1 again.

    Example:
    >>> unpacked({"hits": {"num_texts": 9, "bits": "b080"}})
    {'hits': [1, 0, 1, 1, 0, 0, 0, 0, 1]}
    """
    if not isinstance(result.get("hits"), dict):
        return dict(result)
    bits = np.frombuffer(bytes.fromhex(result["hits"]["bits"]), "uint8")
    return {**result, "hits": np.unpackbits(bits)[: result["hits"]["num_texts"]].tolist()}
