"""Cells: what a comparison computes, each once and identified by all settings that affect its result."""

import dataclasses
import hashlib
import json
import pathlib
import re

KINDS = ("measure", "pretrain_trial", "pretrain", "finetune_trial", "finetune")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One unit of work, computed once.

    Args:
        kind: str, one of `KINDS`: the speed and memory of a model; a short pre-training at one learning
            rate, and the pre-training at the best rate; the same two for fine-tuning, where the latter has
            the test scores.
        settings: dict of JSON values, everything that affects the result. A different value makes a
            different cell.
    """

    kind: str
    settings: dict

    @property
    def name(self):
        """The name of the cell's directory: readable words and a hash of all its settings."""
        text = json.dumps([self.kind, self.settings], sort_keys=True)
        words = [self.kind, file_name(self.settings["mixer"])]
        if self.kind.startswith("finetune"):
            words += [self.settings["start"], str(self.settings["seed"])]
        return "-".join([*words, hashlib.sha256(text.encode()).hexdigest()[:10]])

    def result(self, workdir):
        """Returns the cell's result, or None if it has not been computed."""
        return result_of(self.name, workdir)

    def directory(self, workdir):
        """Returns the pathlib.Path of the cell's directory."""
        return directory_of(self.name, workdir)


def directory_of(name, workdir):
    """Returns the pathlib.Path of the directory of the cell with this name."""
    return pathlib.Path(workdir) / "cells" / name


def result_of(name, workdir):
    """Returns the result of the cell with this name, or None if it has not been computed."""
    path = directory_of(name, workdir) / "result.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def preset_of(name, workdir):
    """Returns the pathlib.Path of the preset that the pre-training cell with this name has written."""
    return directory_of(name, workdir) / "preset"


def missing(cells, workdir):
    """Returns the cells that are still to be computed, in the given order.

    A pre-training whose result is known but whose preset is gone is among them if a cell that is still to
    be computed starts from it.

    Args:
        cells: list of `Cell`.
        workdir: str.
    """
    is_open = [cell.result(workdir) is None for cell in cells]
    wanted = {cell.settings.get("preset") for cell, found in zip(cells, is_open, strict=True) if found}
    return [
        cell
        for cell, found in zip(cells, is_open, strict=True)
        if found or (cell.name in wanted and not preset_of(cell.name, workdir).is_dir())
    ]


def file_name(row):
    """Returns a row's name in a form that can be part of a file name.

    Example:
    >>> file_name("synthesizer:modes=dense+random")
    'synthesizer-modes-dense+random'
    """
    return re.sub(r"[^\w.+]+", "-", row)
