"""What every form of a TFLite file passes, ours and yours; docs/edge.md shows how to use it."""

import numpy as np

from convnlp.export import preset
from convnlp.export.lite import calibration, tflite_files
from convnlp.export.lite.forms import form_named
from convnlp.tasks import task_of
from convnlp.testing.requirements import require


def check_form(name, preset_dir, texts):
    """Checks that a form has built-in operations alone, answers within its bound, and takes rows of any size.

    Args:
        name: str, a key of `convnlp.export.lite.forms.FORMS`.
        preset_dir: str. Name, or directory written by `save_to_preset`.
        texts: list of str, which also calibrate a form that needs it.

    Returns:
        (bytes of the file, float, the largest error of an output).

    Raises:
        AssertionError: if the form gives a value that is not finite.
        ValueError: if there is no text, if the form cannot hold the model, or if it is further from the
            preset than its bound.
    """
    if not isinstance(texts, list) or not texts:
        raise ValueError(f"`texts` must be a list of at least one text. Received: texts={texts!r:.100}")
    form, model = form_named(name), preset.load(preset_dir)
    answers = task_of(model).answers(model)
    ids = calibration.encoded(model, [texts] * len(answers.text_inputs))
    rows = list(ids[:, None]) if form.calibrated else None
    servable, content = tflite_files.converted(model, name, rows=rows)
    expected = np.asarray(answers.edge({"token_ids": ids, "padding_mask": ids != 0}))
    run = tflite_files.runner(content)
    error = answers.compare(run(ids), expected)["largest_error"]
    form.require_near(error, float(np.ptp(answers.edge_values(expected))))
    for batch, length in ((1, 1), (2, 7)):
        finite = np.isfinite(run(np.resize(ids, (batch, length)))).all()
        require(finite, f"the outputs of {name} for {batch} rows of length {length} must be finite")
    return tflite_files.packed(content, model, servable, preset_dir, name, "ids"), error
