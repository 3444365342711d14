"""Which models are trained, and where their results are kept: no model is trained twice."""

import dataclasses
import math

from benchmarks import kept_results
from benchmarks.comparison.cells import Cell
from benchmarks.recalling.training import SOLVED
from convnlp.training import storage


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is the same for all models.

    Args:
        steps: int, the maximum; see `benchmarks.recalling.training.SOLVED`.
        batch_size: int, rows per step.
        learning_rates: tuple of floats, the grid.
        distances: tuple of ints. The rate is chosen at the first.
    """

    steps: int
    batch_size: int
    learning_rates: tuple
    distances: tuple

    def settings(self, row, distance, learning_rate):
        """Returns everything that affects the result of one model.

        Args:
            row: dict, {"task", "mixer", "layers", "causal", "seed"}.
            distance: int.
            learning_rate: float.
        """
        fixed = {"steps": self.steps, "batch_size": self.batch_size}
        return {**row, "distance": distance, "learning_rate": learning_rate, **fixed}

    def run(self, row, cells, train):
        """Trains what is missing of a row: all rates at the first distance, the best rate at the others.

        The best rate has the lowest validation loss; a rate that solves the task ends the search early.

        Args:
            row: dict, as for `settings`.
            cells: `Cells`.
            train: function of settings that returns a result.

        Yields:
            (settings, result) of each model, in turn.
        """
        first, *others = self.distances
        found = {}
        for rate in self.learning_rates:
            settings = self.settings(row, first, rate)
            found[rate] = cells.result(settings, train)
            yield settings, found[rate]
            if found[rate]["validation_accuracy"] >= SOLVED:
                break
        best = min(found, key=lambda rate: loss_of(found[rate]))
        for distance in others:
            settings = self.settings(row, distance, best)
            yield settings, cells.result(settings, train)


def loss_of(result):
    """Returns the validation loss; infinite for a model that diverged."""
    loss = result["validation_loss"]
    return math.inf if loss is None else loss


class Cells:
    """The finished models of a working directory and of the JSON file in docs/.

    Args:
        workdir: str.
        path: pathlib.Path of the JSON file, which need not exist; or None for none.
    """

    def __init__(self, workdir, path=None):
        self._workdir = workdir
        self._known = kept_results.read(path, "cells")

    def result(self, settings, train):
        """Returns the result of a model, which is trained only if that is not known.

        Args:
            settings: dict, see `Plan.settings`.
            train: function of settings that returns a dict.
        """
        cell = Cell(settings["task"], settings)
        if cell.name not in self._known:
            result = cell.result(self._workdir)
            if result is None:
                result = train(settings)
                cell.directory(self._workdir).mkdir(parents=True, exist_ok=True)
                storage.write_json(cell.directory(self._workdir) / "result.json", result)
            self._known[cell.name] = {**settings, **result}
        return self._known[cell.name]

    def values(self):
        """Returns the settings and result of each model, a list of dicts in the order of their names."""
        return [self._known[name] for name in sorted(self._known)]

    def write(self, path, machine):
        """Writes all of them as JSON, one per line.

        Args:
            path: pathlib.Path.
            machine: dict that describes the machine on which they were computed.
        """
        kept_results.write(path, machine, "cells", dict(sorted(self._known.items())))


def rows_of(cells, plan):
    """Returns the best model of each row and distance, of those trained by a plan.

    Args:
        cells: list of dicts, see `Cells.values`.
        plan: `Plan`; models with other steps or another batch size are left out.

    Returns:
        dict, (layers, causal) -> mixer -> task -> distance -> list of cells, one per seed.
    """
    found = {}
    for cell in cells:
        if (cell["steps"], cell["batch_size"]) != (plan.steps, plan.batch_size):
            continue
        group = found.setdefault((cell["layers"], cell["causal"]), {})
        by_seed = (
            group.setdefault(cell["mixer"], {}).setdefault(cell["task"], {}).setdefault(cell["distance"], {})
        )
        best = by_seed.get(cell["seed"])
        if best is None or loss_of(cell) < loss_of(best):
            by_seed[cell["seed"]] = cell
    return {
        key: {
            mixer: {
                task: {distance: list(seeds.values()) for distance, seeds in sorted(by_distance.items())}
                for task, by_distance in tasks.items()
            }
            for mixer, tasks in group.items()
        }
        for key, group in sorted(found.items())
    }
