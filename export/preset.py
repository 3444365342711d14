"""Loading what is to be exported."""

import json
import os

from convnlp.models import Seq2SeqLM, TextClassifier


def load(preset):
    """The `TextClassifier` or `Seq2SeqLM` of a preset, whichever it holds, computing in float32.

    Args:
        preset: str. A directory written by `save_to_preset`.

    Raises:
        ValueError: naming the file that is missing, damaged, or of another class.
    """
    try:
        with open(os.path.join(preset, "task.json"), encoding="utf-8") as file:
            task = json.load(file)["registered_name"]
    except (OSError, ValueError, KeyError, TypeError):
        task = ""  # no task, or a damaged file: from_preset says which
    cls = TextClassifier if task == "convnlp>TextClassifier" else Seq2SeqLM
    return cls.from_preset(preset, dtype="float32")


def asset_files(preset):
    """The files of a preset that an exported model carries along, as far as they exist."""
    vocabulary = os.path.join("assets", "tokenizer", "vocabulary.spm")
    names = ("config.json", "experiment.json", "README.md", vocabulary)
    return [path for name in names if os.path.isfile(path := os.path.join(preset, name))]
