r"""Exports a preset as one TFLite file, and measures it with LiteRT.

    convnlp export-tflite --preset=RUN/preset --output=sentiment.tflite

The file maps `token_ids` [B,T] to `logits` [B,C] in built-in operations only, with B and T resizable.
`--inputs=text` puts the tokenizer inside (`text` [B]), as two custom operations that an app registers from
tensorflow_text. For a language model, the encoder is exported: `embedding` [B,D]. `--mode=int8` also
quantizes the activations, and takes their ranges from your texts, which should be of all lengths:

    convnlp export-tflite --preset=RUN/preset --output=sentiment.tflite --mode=int8 \
        --calibration_source=jsonl:train.jsonl

The file is also a zip archive: `unzip -p sentiment.tflite labels.txt` prints the names of the classes, one
per line. The archive also holds model.json, config.json and vocabulary.spm, the SentencePiece model that
makes the ids. `convnlp run-tflite` runs the file; `convnlp tflite-report` compares the modes.
"""

from absl import flags

from convnlp import outputs, programs
from convnlp.export import preset
from convnlp.export.lite import calibration_flags, forms, tflite_files
from convnlp.models import preset_names

_PRESET = flags.DEFINE_string("preset", None, "Name or directory of the preset to export.", required=True)
_OUTPUT = flags.DEFINE_string("output", None, "File to write.", required=True)
# Not an enum: the modules of --modules, which are imported later, may add a form.
_MODE = flags.DEFINE_string(
    "mode", "dynamic", "; ".join(f"{name}: {form.summary}" for name, form in forms.FORMS.items()) + "."
)
_INPUTS = flags.DEFINE_enum(
    "inputs", "ids", forms.INPUTS, "What the model takes: token ids, or texts (with custom operations)."
)
flags.adopt_module_key_flags(calibration_flags)  # so that --help shows them


def main(_):
    """Exports the preset, and prints what was written."""
    # Before the calibration, which reads many texts.
    read = [preset_names.locate(_PRESET.value), *calibration_flags.paths()]
    outputs.check_file("output", _OUTPUT.value, inputs=read)
    form = forms.form_named(_MODE.value)
    form.require_inputs(_INPUTS.value)
    rows = None
    if form.calibrated:
        calibration_flags.require_source(form.name)
        rows = calibration_flags.rows(preset.load(_PRESET.value), _PRESET.value)
    facts = tflite_files.export(_PRESET.value, _OUTPUT.value, _MODE.value, _INPUTS.value, rows)
    print(f"{_OUTPUT.value}  {facts['megabytes']:.1f} MB, {_MODE.value}, {_INPUTS.value} in")
    print(
        f"one text of full length on one thread: {facts['milliseconds']:.1f} ms "
        f"(median of {tflite_files.TIMED_RUNS})"
    )
    print(
        f"largest error against the preset: {facts['largest_error']:.2g} "
        f"of {facts['output']} up to {facts['largest_value']:.3g}"
    )


if __name__ == "__main__":
    programs.run(main)
