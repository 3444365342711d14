"""The code of docs/python.md runs as it stands there."""

import re

import pytest

from tests import corpus
from tests.documentation import ROOT
from tests.small_classifier import small_classifier


def test_the_code_runs(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.S))
    for printed, quick in (
        ("dynamic_conv_mini_en", "preset"),
        ("Fold(5", "Fold(2"),
        ("epochs=10", "epochs=1"),
    ):
        assert printed in code
        code = code.replace(printed, quick)
    monkeypatch.chdir(tmp_path)
    small_classifier(["dynamic_conv"], 16, ["bad", "good"]).save_to_preset("preset")
    rows = corpus.reviews(20)
    names = {
        "PRESET": "preset",
        "texts": [row["text"] for row in rows],
        "names": [["acq", "grain"][row["label"]] for row in rows],
    }
    exec(code, names)
    assert set(names["names_of_new"]) <= {"acq", "earn", "grain"}
    assert (tmp_path / "runs" / "mine" / "SHA256SUMS").is_file()
    longer = names["TextClassifier"].from_preset("runs/longer")
    text = " ".join(row["text"] for row in rows)
    assert longer.preprocessor([text])["padding_mask"].numpy().sum() > 16
    assert longer.predict([text]).shape == (1, 3)


@pytest.mark.parametrize("name", ["SHA256SUMS", "task.weights.h5"])
def test_the_table_names_the_files(name):
    assert f"`{name}`" in (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
