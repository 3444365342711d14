"""The flags that choose the calibration texts, for the programs with modes that need them."""

from absl import flags

from convnlp.data import Source
from convnlp.export.lite import calibration
from convnlp.models import preset_names

_SOURCE = flags.DEFINE_string(
    "calibration_source",
    None,
    "Texts like those that the model will see: csv:GLOB, jsonl:GLOB, tfds:NAME, ... (docs/training.md).",
)
_SPLIT = flags.DEFINE_string("calibration_split", "train", "Split of that source, or a slice of one.")
_FIELDS = flags.DEFINE_list(
    "calibration_text_fields",
    None,
    "Its text field; two fields for pairs. Default: those that the preset was trained on, else text.",
)
for _alias in ("calibration_text_field", "calibration_fields"):  # the latter is the older name
    flags.DEFINE_alias(_alias, "calibration_text_fields")
_NUM_TEXTS = flags.DEFINE_integer(
    "num_calibration_texts", calibration.NUM_TEXTS, "How many of its texts to use.", lower_bound=1
)
_DATA_DIR = flags.DEFINE_string("data_dir", None, "Where TFDS looks for tfds:NAME.")


def data_dir():
    """Returns where TFDS looks for data sets."""
    return _DATA_DIR.value


def require_source(mode):
    """Raises ValueError if no source is given, for a mode that is calibrated."""
    if _SOURCE.value is None:
        raise ValueError(
            f"--calibration_source must be given for mode {mode}: it takes ranges from your texts"
        )


def rows(model, preset):
    """Returns `calibration.rows` according to the flags; see `require_source`.

    Args:
        model: the model of the preset.
        preset: str. Its name or directory.
    """
    source = Source(_SOURCE.value, _SPLIT.value, _DATA_DIR.value)
    names = calibration.fields_of(preset_names.locate(preset), source, _FIELDS.value)
    return calibration.rows(model, _SOURCE.value, names, _SPLIT.value, _NUM_TEXTS.value, _DATA_DIR.value)
