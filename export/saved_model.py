"""Exports a preset as SavedModels for TensorFlow Serving.

    convnlp export --preset=RUN/preset --output=MODELS/sentiment

This writes MODELS/sentiment/1 (takes texts; version numbers count up) and MODELS/sentiment_ids/1 (takes token
ids: no text operations, for runtimes without tensorflow_text). Each is written completely or not at all,
after every signature was run in a process without convnlp. `convnlp.export.saved_models.signatures.servable`
lists the signatures.
"""

import time

from absl import flags

from convnlp import programs, source_flags
from convnlp.data import Source
from convnlp.export import preset
from convnlp.export.lite import calibration
from convnlp.export.saved_models import effect, precision, versions
from convnlp.models import preset_names
from convnlp.tasks import fields, saved_class, task_of

_PRESET = flags.DEFINE_string("preset", None, "Name or directory of the preset to export.", required=True)
_OUTPUT = flags.DEFINE_string(
    "output", None, "Base directory; the model is written to OUTPUT/VERSION.", required=True
)
_IDS_OUTPUT = flags.DEFINE_string(
    "ids_output", "", "Base directory of the ids-only model. Default: OUTPUT_ids."
)
_VERSION = flags.DEFINE_integer(
    "version", None, "Version number. Default: the highest existing version plus 1.", lower_bound=0
)
_MAX_LENGTH = flags.DEFINE_integer(
    "max_length",
    None,
    "The most tokens that a language model generates, without the start token, which generate's --max_length "
    "counts. Default: the preset's target length - 1, as in generate; half of a row of its training if the "
    "model is an encoder that continues texts.",
    lower_bound=1,
)
_CHECK = flags.DEFINE_bool(
    "check", True, "Compare every signature with the preset before the version appears."
)
_TFLITE = flags.DEFINE_bool(
    "tflite", False, "Also write model.tflite, with int8 weights, for servers with --prefer_tflite_model."
)
_DTYPE = flags.DEFINE_enum(
    "dtype",
    "float32",
    precision.DTYPES,
    "The type of matrix products. bfloat16: half the size, and faster if the server's CPU and TensorFlow "
    "multiply it fast. auto: bfloat16 if a timing shows that it is faster on the exporting machine.",
)
_QUANTIZE_TABLES = flags.DEFINE_bool(
    "quantize_tables",
    False,
    "Store the tables of tokens and n-grams in int8, with a scale for each row: a quarter of their size. Not "
    "for models that write text.",
)
_GROUP_SIZE = flags.DEFINE_integer(
    "group_size",
    None,
    "How many texts of similar length are computed together, so that one long text in a batch does not "
    "lengthen all others. Default: the whole batch. Not for models that write text.",
    lower_bound=1,
)
_CHECK_SOURCE = source_flags.define_source(
    "check_source",
    "Texts on which the model's answers, unless it writes text, are compared with the preset's",
)
_CHECK_SPLIT = source_flags.define_split("check_split")
_CHECK_TEXT_FIELDS = source_flags.define_text_fields("check_text_fields")
_NUM_CHECK_TEXTS = flags.DEFINE_integer(
    "num_check_texts", 1000, "How many of its texts to compare.", lower_bound=1
)


def check_texts():
    """Returns the texts of --check_source, as `calibration.texts` does, or None without it.

    Raises:
        ValueError: if the preset's model writes text instead of giving scores.
    """
    if _CHECK_SOURCE.value is None:
        return None
    directory = preset_names.locate(_PRESET.value)
    if task_of(saved_class(directory)).generates:
        raise ValueError(
            f"--check_source is for models with scores. Received: preset={_PRESET.value}, which writes text"
        )
    source = Source(_CHECK_SOURCE.value, _CHECK_SPLIT.value)
    names = fields.texts_of_preset(directory, source, _CHECK_TEXT_FIELDS.value)
    return calibration.texts(source, names, _NUM_CHECK_TEXTS.value)


def main(_):
    """Exports the preset, and prints what was written."""
    start = time.time()
    versions.new_versions(_OUTPUT.value, _IDS_OUTPUT.value, _VERSION.value)  # before the work
    texts = check_texts()
    model = preset.load(_PRESET.value)
    rows = None if texts is None else calibration.encoded(model, texts)
    dtype = precision.resolve(_DTYPE.value, model)
    *paths, errors = versions.export(
        _PRESET.value,
        _OUTPUT.value,
        _IDS_OUTPUT.value,
        _VERSION.value,
        _MAX_LENGTH.value,
        _CHECK.value,
        _TFLITE.value,
        dtype,
        _GROUP_SIZE.value,
        _QUANTIZE_TABLES.value,
    )
    for path in paths:
        megabytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 1e6
        print(f"{path}  {megabytes:.1f} MB")
        for line in versions.describe(path):
            print(f"  {line}")
    if errors:
        print(f"largest difference from the preset, in a process without convnlp: {max(errors.values()):.2g}")
    print(f"matrix products in {dtype}{', tables in int8' if _QUANTIZE_TABLES.value else ''}")
    if rows is not None:
        print(effect.of_saved_model(paths[0], model, rows))
    elif dtype == "bfloat16" or _QUANTIZE_TABLES.value:
        print("to see what that does to your scores, give texts with --check_source")
    print(f"done in {time.time() - start:.0f} s")


if __name__ == "__main__":
    programs.run(main)
