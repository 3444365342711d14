"""The measurements and the table of `convnlp.export.tflite_report`."""

import tempfile

from convnlp.export.lite import comparison, tflite_files
from convnlp.tasks import task_of


def measure(candidate, token_ids, lengths, score):
    """Measures one row of the report.

    Args:
        candidate: `comparison.Candidate`.
        token_ids: int32 [N,L].
        lengths: list of int.
        score: function from the candidate's outputs [N,...] to a dict of floats.

    Returns:
        dict.
    """
    times = {
        n: tflite_files.milliseconds(candidate.run, comparison.text_of_length(token_ids, n)) for n in lengths
    }
    return {
        "form": candidate.name,
        "megabytes": candidate.megabytes,
        "milliseconds": times,
        **score(comparison.outputs(candidate.run, token_ids)),
    }


def rows(preset_dir, model, source, fields, modes, calibrating, lengths):
    """Measures the SavedModel and all modes.

    Args:
        preset_dir: str.
        model: the preset's model, of any task.
        source: `convnlp.data.Source`.
        fields: `convnlp.tasks.Fields`.
        modes: sequence of str. Keys of `convnlp.export.lite.forms.FORMS`.
        calibrating: list of int32 [1,T]. For the modes that are calibrated; None if there are none.
        lengths: list of int. The numbers of tokens of the timed texts.

    Returns:
        (number of texts, list of dicts).
    """
    token_ids, scores = comparison.examples(model, source, fields)
    answers = task_of(model).answers(model)
    expected = comparison.outputs(comparison.runner(answers, answers.edge), token_ids)

    def score(outputs):
        return {**scores(outputs), **answers.compare(outputs, expected)}

    with tempfile.TemporaryDirectory() as directory:
        candidates = comparison.candidates(preset_dir, modes, calibrating, directory)
        found = [measure(candidate, token_ids, lengths, score) for candidate in candidates]
    return len(token_ids), found


def table(rows, lengths):
    """Returns the lines of a table of these rows."""
    scores = [name for name in rows[0] if name not in ("form", "megabytes", "milliseconds")]
    cells = [["form", "MB", *(f"ms, n = {n}" for n in lengths), *(name.replace("_", " ") for name in scores)]]
    for row in rows:
        times = [f"{row['milliseconds'][n]:.2f}" for n in lengths]
        cells.append([row["form"], f"{row['megabytes']:.2f}", *times, *(f"{row[n]:.4g}" for n in scores)])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in cells]
