"""What docs/blimp.json keeps: how many pairs of each paradigm each model judged correctly."""

from benchmarks import kept_results

PUBLISHED = "published"  # stands in place of the weights of a model that others have tested


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
        self.models = kept_results.read(path, "models")

    def has(self, label, weights, num_pairs):
        """Returns whether a model with these weights has been tested on so many pairs."""
        found = self.models.get(label, {})
        return (found.get("weights"), found.get("num_pairs")) == (weights, num_pairs)

    def counts(self, paradigms):
        """Returns the counts of all models that were tested on these paradigms, by label; ours come first."""
        models = sorted(self.models.items(), key=lambda item: item[1]["weights"] == PUBLISHED)
        return {label: found["counts"] for label, found in models if found["counts"].keys() == set(paradigms)}

    def write(self, machine):
        """Writes the file, if there is one.

        Args:
            machine: dict that describes the machine on which they were computed.
        """
        if self._path is not None:
            kept_results.write(self._path, machine, "models", self.models)
