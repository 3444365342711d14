r"""Compares the modes of TFLite on your data: size, speed on one thread, error, accuracy.

    python -m export.tflite_report --preset=RUN/preset --source=jsonl:test.jsonl \
        --calibration_source=jsonl:train.jsonl --output=report.json

The SavedModel of the same preset stands beside them, on one thread too. A time is the median for one text of
n tokens; n is at most the preset's sequence length. The error is that of a logit against the preset, the
largest over the source.
"""

import json
import os
import tempfile

import numpy as np
from absl import app, flags

from convnlp import programs
from export.lite import calibration_flags, comparison, tflite_files
from export.lite.forms import FORMS, form_named

_PRESET = flags.DEFINE_string("preset", None, "Directory of a TextClassifier.", required=True)
_SOURCE = flags.DEFINE_string(
    "source", None, "Labelled texts: tfds:NAME or jsonl:GLOB (convnlp.data.sources).", required=True
)
_SPLIT = flags.DEFINE_string("split", "train", "Split of the source, with a slice where wanted: test[:10%].")
_TEXT_FIELDS = flags.DEFINE_list("text_fields", ["text"], "Field of the text; two of them for pairs.")
_LABEL_FIELD = flags.DEFINE_string("label_field", "label", "Field of the class.")
_MODES = flags.DEFINE_list("modes", None, f"Default: all, {', '.join(FORMS)} and those of --modules.")
_LENGTHS = flags.DEFINE_list("lengths", ["32", "128", "512"], "Tokens of the texts that are timed.")
_OUTPUT = flags.DEFINE_string("output", None, "JSON file to write the report to.")

flags.register_validator(
    "lengths", lambda lengths: all(n.isdecimal() and int(n) > 0 for n in lengths), "must be numbers >= 1"
)


def measure(candidate, token_ids, labels, reference, lengths):
    """A row of the report.

    Args:
        candidate: `comparison.Candidate`.
        token_ids: int32 [N,L].
        labels: int32 [N].
        reference: float32 [N,C], the preset's logits.
        lengths: list of int.

    Returns:
        dict.
    """
    answers = comparison.outputs(candidate.run, token_ids)
    times = {
        n: tflite_files.milliseconds(candidate.run, comparison.text_of_length(token_ids, n)) for n in lengths
    }
    row = {
        "form": candidate.name,
        "megabytes": candidate.megabytes,
        "milliseconds": times,
        "accuracy": float(np.mean(answers.argmax(axis=1) == labels)),
        "same_label": float(np.mean(answers.argmax(axis=1) == reference.argmax(axis=1))),
    }
    if candidate.name != comparison.SAVED_MODEL:  # which gives the softmax
        row["largest_error"] = float(np.max(np.abs(answers - reference)))
    return row


def table(rows, lengths):
    """Lines of a row each."""
    head = ["form", "MB", *(f"ms, n = {n}" for n in lengths), "largest error", "accuracy", "same label"]
    cells = [head]
    for row in rows:
        times = [f"{row['milliseconds'][n]:.2f}" for n in lengths]
        error = f"{row['largest_error']:.2g}" if "largest_error" in row else ""
        shares = [f"{row['accuracy']:.2%}", f"{row['same_label']:.2%}"]
        cells.append([row["form"], f"{row['megabytes']:.2f}", *times, error, *shares])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in cells]


def main(argv):
    """Exports every form into a temporary directory, measures, prints, writes."""
    if len(argv) > 1:
        raise app.UsageError(f"unknown argument {argv[1]!r}")
    modes = list(FORMS) if _MODES.value is None else _MODES.value
    forms = [form_named(mode) for mode in modes]
    for form in forms:
        form.require_inputs("ids")
    comparison.use_one_thread()
    model = comparison.load_classifier(_PRESET.value)
    token_ids, labels = comparison.labelled(
        model,
        _SOURCE.value,
        split=_SPLIT.value,
        text_fields=tuple(_TEXT_FIELDS.value),
        label_field=_LABEL_FIELD.value,
        data_dir=calibration_flags.data_dir(),
    )
    calibrated = next((form for form in forms if form.calibrated), None)
    rows = calibration_flags.rows(model, calibrated.name) if calibrated else None
    limit = model.preprocessor.sequence_length
    lengths = sorted({min(int(n), limit) for n in _LENGTHS.value})
    if max(map(int, _LENGTHS.value)) > limit:
        print(f"the preset reads {limit} tokens: longer texts are not timed")
    reference = comparison.outputs(comparison.logits(model), token_ids)
    with tempfile.TemporaryDirectory() as directory:
        found = [
            measure(candidate, token_ids, labels, reference, lengths)
            for candidate in comparison.candidates(_PRESET.value, modes, rows, directory)
        ]
    print("\n".join(table(found, lengths)))
    if _OUTPUT.value:
        facts = {"preset": _PRESET.value, "source": _SOURCE.value, "split": _SPLIT.value}
        facts |= {"num_examples": len(labels), "sequence_length": limit, "threads": 1, "forms": found}
        os.makedirs(os.path.dirname(_OUTPUT.value) or ".", exist_ok=True)
        with open(_OUTPUT.value, "w", encoding="utf-8") as file:
            json.dump(facts, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    programs.run(main)
