"""The finished cells that docs/paper.json keeps, so that none is computed again if a directory is lost."""

import base64
import zlib

import numpy as np

from benchmarks import kept_results
from benchmarks.comparison import cells
from convnlp.training import storage

_LEFT_OUT = ("lengths",)  # of each test text: large, and can be computed again from the texts


class Store:
    """The results of a working directory and of the JSON file.

    Args:
        workdir: pathlib.Path.
        path: pathlib.Path of the JSON file, which need not exist.
    """

    def __init__(self, workdir, path):
        self._workdir, self._path = workdir, path
        self.known = kept_results.read(path, "cells")

    def restore(self):
        """Writes the results that only the file has into the working directory, as if computed there."""
        for name, found in self.known.items():
            directory = cells.directory_of(name, self._workdir)
            if not (directory / "result.json").exists():
                directory.mkdir(parents=True, exist_ok=True)
                storage.write_json(directory / "settings.json", found["settings"])
                storage.write_json(directory / "result.json", unpacked(found["result"]))

    def take(self, wanted):
        """Adds the results of some cells from the working directory.

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
        """Returns the result of a cell, or None."""
        found = self.known.get(cell.name)
        return found and unpacked(found["result"])

    def write(self, machine):
        """Writes the file, with the cells that another command has added to it in the meantime.

        Args:
            machine: dict that describes the machine on which they were computed.
        """
        self.known = kept_results.read(self._path, "cells") | self.known
        kept_results.write(self._path, machine, "cells", dict(sorted(self.known.items())))


def packed(result):
    """Returns a result in the form that is kept: hits as bits in hexadecimal, metrics with five digits.

    The F1 scores of questions are kept in whole hundredths, one byte each, compressed by zlib and in
    Base64.

    Example:
    >>> packed({"hits": [1, 0, 1, 1, 0, 0, 0, 0, 1], "curve": [[10, 0.1234567]], "lengths": [3]})
    {'hits': {'num_texts': 9, 'bits': 'b080'}, 'curve': [[10, 0.12346]]}
    """
    kept = {name: value for name, value in result.items() if name not in _LEFT_OUT}
    if "hits" in kept:
        bits = np.packbits(np.asarray(kept["hits"], "uint8")).tobytes().hex()
        kept["hits"] = {"num_texts": len(result["hits"]), "bits": bits}
    if "f1s" in kept:
        hundredths = np.rint(100 * np.asarray(kept["f1s"])).astype("uint8").tobytes()
        kept["f1s"] = base64.b64encode(zlib.compress(hundredths, 9)).decode("ascii")
    if "curve" in kept:
        kept["curve"] = [[step, round(value, 5)] for step, value in kept["curve"]]
    return kept


def unpacked(result):
    """Returns a packed result with hits as a list of 0 and 1 again; the lengths of its texts are lost.

    The F1 scores of questions are rounded to hundredths.

    Example:
    >>> unpacked({"hits": {"num_texts": 9, "bits": "b080"}})
    {'hits': [1, 0, 1, 1, 0, 0, 0, 0, 1]}
    """
    found = dict(result)
    if isinstance(found.get("hits"), dict):
        bits = np.frombuffer(bytes.fromhex(found["hits"]["bits"]), "uint8")
        found["hits"] = np.unpackbits(bits)[: found["hits"]["num_texts"]].tolist()
    if isinstance(found.get("f1s"), str):
        hundredths = np.frombuffer(zlib.decompress(base64.b64decode(found["f1s"])), "uint8")
        found["f1s"] = (hundredths / 100).tolist()
    return found
