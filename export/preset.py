"""Loading what is to be exported."""

import os

from convnlp import tasks
from convnlp.models import preset_names


def load(preset):
    """The model of a preset, whatever its task, in float32; see `convnlp.tasks.load`."""
    return tasks.load(preset, dtype="float32")


def asset_files(preset):
    """The files of a preset that an exported model carries along, as far as they exist."""
    preset = preset_names.locate(preset)
    vocabulary = os.path.join("assets", "tokenizer", "vocabulary.spm")
    names = ("config.json", "experiment.json", "README.md", vocabulary)
    return [path for name in names if os.path.isfile(path := os.path.join(preset, name))]
