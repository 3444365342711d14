r"""Compares the modes of TFLite on your data: size, speed on one thread, error, scores.

    convnlp tflite-report --preset=RUN/preset --source=jsonl:test.jsonl \
        --calibration_source=jsonl:train.jsonl --output=report.json

The SavedModel of the same preset is measured beside them, also on one thread. A time is the median for one
text of n tokens; n is at most the preset's sequence length. The error is the largest difference of an output
from the preset's, over all texts of the source. The rest depends on the task: for a classifier, accuracy and
the share of texts that get the preset's label; for a language model's encoder, whose texts need no labels,
the lowest cosine between its embedding and the preset's.
"""

import json

from absl import flags

from convnlp import outputs, programs, source_flags
from convnlp.data import Source, sources
from convnlp.export import preset
from convnlp.export.lite import calibration_flags, comparison, report
from convnlp.export.lite.forms import FORMS, form_named
from convnlp.models import preset_names
from convnlp.tasks import fields, task_of

_PRESET = flags.DEFINE_string("preset", None, "Name or directory of a preset, of any task.", required=True)
_SOURCE = source_flags.define_source(
    "source", "Texts, with labels if the task's scores need them", required=True
)
_SPLIT = source_flags.define_split("split")
_TEXT_FIELDS = source_flags.define_text_fields("text_fields")
_LABEL_FIELD = flags.DEFINE_string(
    "label_field", None, "Label field. Default: the one that the preset was trained on, else label."
)
_MODES = flags.DEFINE_list(
    "modes", None, f"Modes to compare. Default: all ({', '.join(FORMS)} and those of --modules)."
)
_LENGTHS = flags.DEFINE_list("lengths", ["32", "128", "512"], "Numbers of tokens of the timed texts.")
_OUTPUT = flags.DEFINE_string("output", None, "JSON file to write the report to.")

flags.adopt_module_key_flags(calibration_flags)  # so that --help shows them
flags.register_validator(
    "lengths",
    lambda lengths: bool(lengths) and all(n.isdecimal() and int(n) > 0 for n in lengths),
    "must be numbers >= 1",
)


def main(_):
    """Exports every form into a temporary directory, measures it, and prints and writes the report."""
    source = Source(_SOURCE.value, _SPLIT.value, calibration_flags.data_dir())
    directory = preset_names.locate(_PRESET.value)
    if _OUTPUT.value is not None:
        read = [directory, *sources.paths(source), *calibration_flags.paths()]
        outputs.check_file("output", _OUTPUT.value, inputs=read)
    modes = list(FORMS) if _MODES.value is None else _MODES.value
    forms = [form_named(mode) for mode in modes]
    for form in forms:
        form.require_inputs("ids")
        if form.calibrated:
            calibration_flags.require_source(form.name)
    comparison.use_one_thread()
    model = preset.load(_PRESET.value)
    texts = tuple(_TEXT_FIELDS.value) if _TEXT_FIELDS.value else None
    found = fields.of_preset(model, directory, source, texts=texts, label=_LABEL_FIELD.value)
    calibrating = (
        calibration_flags.rows(model, _PRESET.value) if any(form.calibrated for form in forms) else None
    )
    limit = task_of(model).answers(model).sequence_length
    lengths = sorted({min(int(n), limit) for n in _LENGTHS.value})
    if max(map(int, _LENGTHS.value)) > limit:
        print(f"the preset reads at most {limit} tokens: longer texts are not timed")
    count, rows = report.rows(_PRESET.value, model, source, found, modes, calibrating, lengths)
    print("\n".join(report.table(rows, lengths)))
    if _OUTPUT.value is not None:
        facts = {"preset": _PRESET.value, "source": _SOURCE.value, "split": _SPLIT.value}
        facts |= {"num_examples": count, "sequence_length": limit, "threads": 1, "forms": rows}
        outputs.write_file(_OUTPUT.value, (json.dumps(facts, indent=1) + "\n").encode())


if __name__ == "__main__":
    programs.run(main)
