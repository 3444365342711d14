"""The forms of one classifier that the server can load, each exported once."""

import dataclasses
import pathlib

import numpy as np

from benchmarks.shared_flags import check_among
from convnlp.export.saved_models import versions
from convnlp.models import TextClassifier

_PRESET = "dynamic_conv_mini_en"
_NUM_CLASSES, _NUM_BUCKETS = 77, 2**14  # of the demo's classifier, Banking77


@dataclasses.dataclass(frozen=True)
class Form:
    """One form of the classifier.

    Args:
        name: str, for tables.
        options: dict, of `convnlp.export.saved_models.versions.export`.
    """

    name: str
    options: dict

    @property
    def flags(self):
        """The additional flags with which the server answers using this form."""
        return ["--prefer_tflite_model"] if self.options.get("tflite") else []


FORMS = {
    "float32": Form("SavedModel float32", {}),
    "bfloat16": Form("SavedModel bfloat16", {"dtype": "bfloat16"}),
    "int8_tables": Form("SavedModel float32, tables in int8", {"quantize_tables": True}),
    "bfloat16_int8_tables": Form(
        "SavedModel bfloat16, tables in int8", {"dtype": "bfloat16", "quantize_tables": True}
    ),
    "tflite": Form("LiteRT int8 and SavedModel float32", {"tflite": True}),
}


def chosen(keys):
    """Returns the forms with the given keys, or all forms if there are none, as a dict.

    Raises:
        ValueError: if a key is unknown.
    """
    check_among("forms", keys, FORMS)
    return {key: FORMS[key] for key in keys or FORMS}


def write_preset(folder):
    """Writes a classifier as large as the demo's, with an untrained head, and returns its directory."""
    directory = pathlib.Path(folder, "preset")
    if not directory.exists():
        labels = [f"intent_{number}" for number in range(_NUM_CLASSES)]
        encoder = TextClassifier.from_preset(_PRESET, num_classes=_NUM_CLASSES, labels=labels)
        model = TextClassifier(
            encoder.backbone,
            _NUM_CLASSES,
            encoder.preprocessor,
            labels=labels,
            ngram_buckets=_NUM_BUCKETS,
            ngram_dim=_NUM_CLASSES,
        )
        model.ngrams.table.assign(np.random.default_rng(0).normal(size=model.ngrams.table.shape))
        model.save_to_preset(str(directory))
    return directory


def build(preset, key, folder):
    """Exports a form, unless it exists; returns the directory of its version."""
    version = pathlib.Path(folder, key, "1")
    if not version.exists():
        versions.export(str(preset), str(version.parent), version=1, check=False, **FORMS[key].options)
    return version
