"""What holds for every form of a TFLite file, and a form of one's own, as docs/edge.md adds it."""

import importlib
import json
import re
import zipfile

import numpy as np
import pytest

from convnlp.export.edge_model import EdgeModel
from convnlp.export.lite import calibration, conversion, tflite_files
from convnlp.export.lite.forms import FORMS, INPUTS, Form, form_named, register_form
from convnlp.models import TextRegressor
from convnlp.tasks.classification import ClassifierAnswers
from tests import corpus, your_own
from tests.documentation import ROOT
from tests.export.conftest import LABELS
from tests.run_program import run_program

PAGE = (ROOT / "docs" / "edge.md").read_text(encoding="utf-8")
(FORM,) = your_own.python_blocks("edge.md")
TEXTS = ["", "a river", *corpus.documents(4)]


@pytest.fixture
def own_forms():
    """Takes away the forms that the test registers."""
    ours = dict(FORMS)
    yield
    FORMS.clear()
    FORMS.update(ours)


def check_form(name, model, preset_dir):
    """Built-in operations alone, and answers near the model's. Returns the file's bytes and the error."""
    form = form_named(name)
    ids = calibration.encoded(model, [TEXTS])
    servable, content = tflite_files.converted(
        model, name, "ids", list(ids[:, None]) * form.calibrated or None
    )
    assert conversion.custom_operations(content) == set()
    expected = np.asarray(model({"token_ids": ids, "padding_mask": ids != 0}, training=False))
    run = tflite_files.runner(content)
    error = np.abs(run(ids) - expected).max()
    # The forms round weights and activations; a wrong mask or weight is off by the range of the logits.
    assert error <= min(form.bound, 0.2 * np.ptp(expected))
    for batch, length in ((1, 1), (2, 7)):
        assert np.isfinite(run(ids[:batch, :length])).all()
    return tflite_files.packed(content, model, servable, str(preset_dir), name, "ids"), error


@pytest.mark.parametrize("name", FORMS)
def test_numbers_far_from_zero_keep_their_differences(name, small, small_dir, tmp_path):
    """In float16, the mean would be cut at 65,504; in int8, the range would begin at 0."""
    model = TextRegressor(small.backbone, small.preprocessor, mean=392_345.25, scale=1.5)
    kernel, bias = small.head.get_weights()
    model.head.set_weights([kernel[:, :1], bias[:1]])
    content, error = check_form(name, model, small_dir)
    assert error < 1
    file = tmp_path / "model.tflite"
    file.write_bytes(content)
    (answer,) = EdgeModel(file).predict(["a river"])
    assert answer == {"score": pytest.approx(392_345, abs=10)}


@pytest.mark.parametrize("name", FORMS)
def test_every_form(name, small, small_dir, tmp_path):
    assert FORMS[name].name == name
    file = tmp_path / "model.tflite"
    file.write_bytes(check_form(name, small, small_dir)[0])
    model = EdgeModel(file)
    assert model.facts["mode"] == name
    assert set(model.predict(["a river"])[0]["scores"]) == set(LABELS)


def test_every_form_is_in_the_docs():
    rows = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(FORMS)
    assert all(form.summary and set(form.inputs) <= set(INPUTS) for form in FORMS.values())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    with your_own.modules(tmp_path, monkeypatch, {"my_forms": FORM}, FORMS) as folder:
        yield folder


def test_a_form_of_ones_own_is_as_good_as_ours(folder, small, small_dir):
    importlib.import_module("my_forms")
    _, error = check_form("bf16", small, small_dir)
    assert error > 10 * check_form("fp32", small, small_dir)[1]  # it was its code that ran


@pytest.mark.multiprocess
def test_a_program_writes_a_form_of_ones_own(folder, small_dir):
    file = folder / "model.tflite"
    done = run_program(
        "export.tflite", "--modules=my_forms", "--mode=bf16", f"--preset={small_dir}", f"--output={file}"
    )
    assert done.returncode == 0, done.stderr
    assert "bf16, ids in" in done.stdout
    with zipfile.ZipFile(file) as archive:
        assert json.loads(archive.read("model.json"))["mode"] == "bf16"


def test_an_export_beyond_its_bound_is_refused(small_dir, tmp_path, own_forms):
    exact = type(form_named("fp32"))
    register_form(type("Exact", (exact,), {"name": "exact", "bound": 0.0}))
    with pytest.raises(ValueError, match="the exact model differs from the preset by "):
        tflite_files.export(str(small_dir), str(tmp_path / "model.tflite"), "exact")
    assert not any(tmp_path.iterdir())


def test_the_task_says_how_far_an_export_is_from_the_preset(small_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(ClassifierAnswers, "compare", lambda *_: {"largest_error": 1.25})
    with pytest.raises(ValueError, match=r"the fp32 model differs from the preset by 1\.25"):
        tflite_files.export(str(small_dir), str(tmp_path / "model.tflite"), "fp32")


class Half(Form):
    """Without a way to make it."""

    name, summary = "half", "half"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"name": "int8"}, r"'int8' is convnlp\.export\.lite\.forms\.full_int8\.FullInt8"),
        ({"name": "a b"}, r"`name` of Own must be an identifier\. Received: name='a b'"),
        ({"name": None}, r"`name` of Own must be an identifier\. Received: name=None"),
        ({"name": "own", "summary": ""}, r"`summary` of Own must be a str, not empty\. Received: ''"),
        ({"name": "own", "inputs": ("pixels",)}, r"`inputs` of Own must be some of ids, text\. Received"),
    ],
)
def test_what_cannot_be_registered_is_named(members, message):
    before = dict(FORMS)
    with pytest.raises(ValueError, match=message):
        register_form(type("Own", (type(form_named("fp32")),), members))
    for cls in (Half, dict, "int8"):
        with pytest.raises(ValueError, match="`cls` must be a subclass of Form with all its methods"):
            register_form(cls)
    assert before == FORMS


def test_unknown_modes_are_refused_before_anything_is_read():
    with pytest.raises(ValueError, match=r"`mode` must be one of dynamic, .*Received: mode='int4'"):
        form_named("int4")
