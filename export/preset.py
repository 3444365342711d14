"""Loading what is to be exported."""

import json
import os

from convnlp.models import Seq2SeqBackbone, Seq2SeqLM, TextClassifier, Tokenizer
from export.saved_models.prefix_lm import PrefixLM


def load(preset):
    """The `TextClassifier`, `Seq2SeqLM` or `PrefixLM` of a preset, whichever it holds, in float32.

    Args:
        preset: str. A directory written by `save_to_preset`.

    Raises:
        ValueError: naming the file that is missing, damaged, or of another class, or if there is nothing that
            answers: an encoder alone that was not trained to continue a text.
    """
    task = _entry(preset, "task.json", "registered_name")
    if not task and _entry(preset, "config.json", "config", "num_decoder_layers") == 0:
        return _encoder_alone(preset)
    cls = TextClassifier if task == "convnlp>TextClassifier" else Seq2SeqLM
    return cls.from_preset(preset, dtype="float32")


def asset_files(preset):
    """The files of a preset that an exported model carries along, as far as they exist."""
    vocabulary = os.path.join("assets", "tokenizer", "vocabulary.spm")
    names = ("config.json", "experiment.json", "README.md", vocabulary)
    return [path for name in names if os.path.isfile(path := os.path.join(preset, name))]


def _encoder_alone(preset):
    """The language model of the objective prefix_lm; what it was trained by stands in experiment.json."""
    objectives = _entry(preset, "experiment.json", "objective", "names")
    sequence_length = _entry(preset, "experiment.json", "data", "input_length")
    if "prefix_lm" not in (objectives or ()) or not isinstance(sequence_length, int):
        trained = f"by {' + '.join(objectives)}" if objectives else "by what no experiment.json tells"
        raise ValueError(
            f"preset {preset}: an encoder alone, trained {trained}, has no classes to choose from and writes "
            "no text. Fine-tune it with convnlp.finetune and export that; only one trained by prefix_lm can "
            "be exported as it is"
        )
    backbone = Seq2SeqBackbone.from_preset(preset, dtype="float32")
    return PrefixLM(backbone, Tokenizer.from_preset(preset), sequence_length)


def _entry(preset, name, *keys):
    """What stands under the keys in a JSON file; None where it does not, or the file is damaged."""
    try:
        with open(os.path.join(preset, name), encoding="utf-8") as file:
            value = json.load(file)
        for key in keys:
            value = value[key]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # if it is damaged, from_preset says so
    return value
