"""Exports a preset as SavedModels for TensorFlow Serving.

    python -m export.saved_model --preset=RUN/preset --output=MODELS/sentiment

writes MODELS/sentiment/1 (texts in; version numbers go up) and MODELS/sentiment_ids/1 (token ids in: no text
ops, for runtimes without tensorflow_text), each complete or not at all, after asking every signature in a
process without convnlp. The signatures are those of `convnlp.export.saved_models.signatures.servable`.
"""

import time

from absl import app, flags

from convnlp import programs
from convnlp.export.saved_models import versions

_PRESET = flags.DEFINE_string("preset", None, "Name or directory of the preset to export.", required=True)
_OUTPUT = flags.DEFINE_string(
    "output", None, "Base directory; the model goes to OUTPUT/VERSION.", required=True
)
_IDS_OUTPUT = flags.DEFINE_string(
    "ids_output", "", "Base directory of the ids-only model. Default: OUTPUT_ids."
)
_VERSION = flags.DEFINE_integer(
    "version", None, "Version number. Default: the highest one there plus 1.", lower_bound=0
)
_MAX_LENGTH = flags.DEFINE_integer(
    "max_length",
    None,
    "Bound of generated tokens (language models). Default: the preset's target length; half of the rows of "
    "its training where an encoder alone continues texts.",
    lower_bound=1,
)
_CHECK = flags.DEFINE_bool(
    "check", True, "Compare every signature with the preset before the version appears."
)
_TFLITE = flags.DEFINE_bool(
    "tflite", False, "Write model.tflite too, for servers with --prefer_tflite_model; weights in int8."
)


def main(argv):
    """Exports and prints what has been made."""
    if len(argv) > 1:
        raise app.UsageError(f"unknown argument {argv[1]!r}")
    start = time.time()
    *paths, errors = versions.export(
        _PRESET.value,
        _OUTPUT.value,
        _IDS_OUTPUT.value,
        _VERSION.value,
        _MAX_LENGTH.value,
        _CHECK.value,
        _TFLITE.value,
    )
    for path in paths:
        megabytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 1e6
        print(f"{path}  {megabytes:.1f} MB")
        for line in versions.describe(path):
            print(f"  {line}")
    if errors:
        print(f"largest difference from the preset, in a process without convnlp: {max(errors.values()):.2g}")
    print(f"done in {time.time() - start:.0f} s")


if __name__ == "__main__":
    programs.run(main)
