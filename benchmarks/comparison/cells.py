"""Cells: the things that a comparison computes, each once, each found by all the settings that decide it."""

import dataclasses
import hashlib
import json
import pathlib
import re

KINDS = ("measure", "pretrain_trial", "pretrain", "finetune_trial", "finetune")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One thing to compute, once.

    Args:
        kind: str, of `KINDS`: speed and memory of a model; a short pre-training at one learning rate, and the
            one at the best of them; the same of fine-tuning, the latter with its test scores.
        settings: dict of JSON values: all that decides the result. Another value is another cell.
    """

    kind: str
    settings: dict

    @property
    def name(self):
        """The cell's directory: what it is, to be read, and a hash of all its settings."""
        text = json.dumps([self.kind, self.settings], sort_keys=True)
        words = [self.kind, file_name(self.settings["mixer"])]
        if self.kind.startswith("finetune"):
            words += [self.settings["start"], str(self.settings["seed"])]
        return "-".join([*words, hashlib.sha256(text.encode()).hexdigest()[:10]])

    def result(self, workdir):
        """The cell's result, or None if it has not been computed."""
        return result_of(self.name, workdir)

    def directory(self, workdir):
        """pathlib.Path of the cell's directory."""
        return directory_of(self.name, workdir)


def directory_of(name, workdir):
    """pathlib.Path of the directory of the cell with this name."""
    return pathlib.Path(workdir) / "cells" / name


def result_of(name, workdir):
    """The result of the cell with this name, or None if it has not been computed."""
    path = directory_of(name, workdir) / "result.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def preset_of(name, workdir):
    """pathlib.Path of what the pre-training with this name has given."""
    return directory_of(name, workdir) / "preset"


def missing(cells, workdir):
    """The cells that are still to be computed, in their order.

    A pre-training whose result is known, but whose encoder is gone, is among them if something starts from
    it.

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
    """A row's name as part of a file's.

    Example:
    >>> file_name("synthesizer:modes=dense+random")
    'synthesizer-modes-dense+random'
    """
    return re.sub(r"[^\w.+]+", "-", row)
