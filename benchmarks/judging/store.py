"""What docs/blimp.json keeps: how many pairs of each paradigm each model judged correctly."""

import json

from convnlp.training import storage


class Store:
    """The known results.

    Args:
        path: pathlib.Path of the JSON file, which need not exist; or None for none.

    Attributes:
        models: dict, label -> {"weights": str, "num_pairs": int, the maximum per paradigm, "counts": dict,
            paradigm -> [pairs judged correctly, all]}.
    """

    def __init__(self, path):
        self._path = path
        self.models = {}
        if path is not None and path.exists():
            self.models = json.loads(path.read_text(encoding="utf-8"))["models"]

    def has(self, label, weights, num_pairs):
        """Returns whether a model with these weights has been tested on so many pairs."""
        found = self.models.get(label, {})
        return (found.get("weights"), found.get("num_pairs")) == (weights, num_pairs)

    def counts(self, paradigms):
        """Returns the counts of all models that were tested on these paradigms, by label."""
        return {
            label: found["counts"]
            for label, found in self.models.items()
            if found["counts"].keys() == set(paradigms)
        }

    def write(self, machine):
        """Writes the file, one line per model.

        Args:
            machine: dict that describes the machine on which they were computed.
        """
        if self._path is None:
            return
        lines = [f"{json.dumps(label)}: {json.dumps(found)}" for label, found in self.models.items()]
        body = ",\n".join(lines)
        text = f'{{"machine": {json.dumps(machine)},\n"models": {{\n{body}\n}}}}\n'
        storage.write(str(self._path), text.encode())
