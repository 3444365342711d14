"""docs/keras.ipynb: every cell of it runs, and what it shows is of a run in which none failed."""

import json

import keras
import pytest

from tests.documentation import ROOT

NOTEBOOK = json.loads((ROOT / "docs" / "keras.ipynb").read_text(encoding="utf-8"))
CELLS = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


@pytest.mark.slow
def test_every_cell_runs(capsys):
    keras.utils.set_random_seed(0)
    scope = {"__name__": "__main__"}
    for cell in CELLS:
        exec(compile("".join(cell["source"]), "keras.ipynb", "exec"), scope)
    shown = capsys.readouterr().out
    assert "dynamic_conv_mini_en: " in shown
    assert "the loaded model answers the same: True" in shown
    assert scope["history"]["val_sparse_categorical_accuracy"][-1] > 0.5  # of four classes


def test_what_it_shows_is_of_one_run_from_the_top():
    assert [cell["execution_count"] for cell in CELLS] == [*range(1, len(CELLS) + 1)]
    outputs = [output for cell in CELLS for output in cell["outputs"]]
    assert len(outputs) >= len(CELLS) - 1
    assert not any(output["output_type"] == "error" for output in outputs)
