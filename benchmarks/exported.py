"""An exported classifier to measure, untrained because the time does not depend on the weights."""

import os
import pathlib

from convnlp import train_tokenizer
from convnlp.export.saved_models import versions
from convnlp.models import SIZES, Seq2SeqBackbone, TextClassifier, TextClassifierPreprocessor, Tokenizer

_ROOT = pathlib.Path(__file__).resolve().parents[1]


def export_classifier(mixer, size, length, folder, tflite=False):
    """Exports a classifier of two classes.

    Args:
        mixer: str.
        size: str, name in `convnlp.models.SIZES`, or a dict like those in it.
        length: int, number of tokens to which texts are truncated.
        folder: str, directory to write to.
        tflite: bool, whether to write model.tflite too.

    Returns:
        pathlib.Path, the version directory.
    """
    preset = write_preset(mixer, size, length, folder)
    return versions.export(preset, os.path.join(folder, "model"), check=False, tflite=tflite)[0]


def write_preset(mixer, size, length, folder):
    """Writes the preset of such a classifier; arguments as for `export_classifier`. Returns its directory."""
    # The project's own pages suffice to train a tokenizer; its speed does not depend on the text.
    pages = sorted(_ROOT.glob("docs/*.md"))
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines() if line]
    tokenizer = Tokenizer(train_tokenizer.train(lines, 1000))
    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(),
        **{**(size if isinstance(size, dict) else SIZES[size]), "num_decoder_layers": 0},
        encoder_mixer=mixer,
        max_sequence_length=length,
    )
    classifier = TextClassifier(
        backbone,
        num_classes=2,
        preprocessor=TextClassifierPreprocessor(tokenizer, length),
        labels=["negative", "positive"],
    )
    preset = os.path.join(folder, "preset")
    classifier.save_to_preset(preset)
    return preset
