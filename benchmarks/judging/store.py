"""What docs/blimp.json and docs/cogs.json keep: of how many examples of each kind each model was right."""

from benchmarks import kept_results

PUBLISHED = "published"  # stands in place of the weights of a model that others have tested


class Store:
    """The known results.

    Args:
        path: pathlib.Path of the JSON file, which need not exist; or None for none.
        limit: str, the key of the largest number of examples of a kind.

    Attributes:
        models: dict, label -> {"weights": str, limit: int, "counts": dict, kind -> [right, all]}.
    """

    def __init__(self, path, limit):
        self._path, self._limit = path, limit
        self.models = kept_results.read(path, "models")

    def has(self, label, weights, most):
        """Returns whether a model with these weights has been tested on so many examples of a kind."""
        found = self.models.get(label, {})
        return (found.get("weights"), found.get(self._limit)) == (weights, most)

    def counts(self, kinds):
        """Returns the counts of all models that were tested on these kinds, by label; ours come first."""
        models = sorted(self.models.items(), key=lambda item: item[1]["weights"] == PUBLISHED)
        return {label: found["counts"] for label, found in models if found["counts"].keys() == set(kinds)}

    def write(self, machine):
        """Writes the file, if there is one.

        Args:
            machine: dict that describes the machine on which they were computed.
        """
        if self._path is not None:
            kept_results.write(self._path, machine, "models", self.models)
