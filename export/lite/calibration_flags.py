"""The flags that choose the calibration texts, for the programs with modes that need them."""

from absl import flags

from convnlp import source_flags
from convnlp.data import Source, sources
from convnlp.export.lite import calibration
from convnlp.models import preset_names

_SOURCE = source_flags.define_source("calibration_source", "Texts like those that the model will see")
_SPLIT = source_flags.define_split("calibration_split")
_FIELDS = source_flags.define_text_fields("calibration_text_fields")
flags.DEFINE_alias("calibration_fields", "calibration_text_fields")  # the older name
_NUM_TEXTS = flags.DEFINE_integer(
    "num_calibration_texts", calibration.NUM_TEXTS, "How many of its texts to use.", lower_bound=1
)
_DATA_DIR = source_flags.define_data_dir("data_dir")


def data_dir():
    """Returns where TFDS looks for data sets."""
    return _DATA_DIR.value


def paths():
    """Returns the paths of the files of the source, a list; empty without one."""
    return [] if _SOURCE.value is None else sources.paths(_source())


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
    source = _source()
    names = calibration.fields_of(preset_names.locate(preset), source, _FIELDS.value)
    return calibration.rows(model, source, names, _NUM_TEXTS.value)


def _source():
    return Source(_SOURCE.value, _SPLIT.value, _DATA_DIR.value)
