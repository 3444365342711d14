"""Loads a preset for export."""

import os

from convnlp import tasks
from convnlp.models import preset_names


def load(preset):
    """Loads the model of a preset, of any task, in float32; see `convnlp.tasks.load`."""
    return tasks.load(preset, dtype="float32")


def asset_files(preset):
    """Returns the files of a preset that are copied into an exported model, if they exist."""
    preset = preset_names.locate(preset)
    vocabulary = os.path.join("assets", "tokenizer", "vocabulary.spm")
    names = ("config.json", "experiment.json", "README.md", vocabulary)
    return [path for name in names if os.path.isfile(path := os.path.join(preset, name))]


def label_lines(labels):
    """Returns the content of labels.txt: the name of each class on a line, even if it has several lines."""
    return "".join(" ".join(label.splitlines()) + "\n" for label in labels)
