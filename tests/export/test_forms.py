"""What holds for every form of a TFLite file, and a form of one's own, as docs/edge.md adds it."""

import importlib
import json
import re
import types
import zipfile

import numpy as np
import pytest

from convnlp.export.edge_model import EdgeModel
from convnlp.export.lite import tflite_files
from convnlp.export.lite.forms import FORMS, INPUTS, Form, form_named, register_form
from convnlp.export.testing import check_form
from convnlp.models import TextRegressor
from convnlp.models.best_spans import LOWEST
from convnlp.tasks.classification import ClassifierAnswers
from convnlp.tasks.question_answering import SpanAnswers
from tests import corpus, your_own
from tests.documentation import ROOT
from tests.export.conftest import LABELS
from tests.run_program import run_program

PAGE = (ROOT / "docs" / "edge.md").read_text(encoding="utf-8")
FORM, CHECK = your_own.python_blocks("edge.md")
TEXTS = ["", "a river", *corpus.documents(4)]


@pytest.fixture
def own_forms():
    """Takes away the forms that the test registers."""
    ours = dict(FORMS)
    yield
    FORMS.clear()
    FORMS.update(ours)


@pytest.mark.parametrize("name", FORMS)
def test_numbers_far_from_zero_keep_their_differences(name, small, tmp_path):
    """In float16, the mean would be cut at 65,504; in int8, the range would begin at 0."""
    model = TextRegressor(small.backbone, small.preprocessor, mean=392_345.25, scale=1.5)
    kernel, bias = small.head.get_weights()
    model.head.set_weights([kernel[:, :1], bias[:1]])
    model.save_to_preset(str(tmp_path / "preset"))
    content, error = check_form(name, str(tmp_path / "preset"), TEXTS)
    assert error < 1
    file = tmp_path / "model.tflite"
    file.write_bytes(content)
    (answer,) = EdgeModel(file).predict(["a river"])
    assert answer == {"score": pytest.approx(392_345, abs=10)}


def test_what_an_app_is_compared_with_is_shown(small_dir, tmp_path, monkeypatch, capsys):
    content, _ = check_form("fp32", str(small_dir), TEXTS)
    (tmp_path / "sst2.tflite").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    exec(CHECK, {})
    shown = capsys.readouterr().out.splitlines()
    ids = EdgeModel("sst2.tflite").token_ids(["a gripping film"]).tolist()
    assert len(shown) == 2
    assert shown[0].startswith(f"{ids} [[")


@pytest.mark.parametrize("texts", [[], "a river"])
def test_a_form_is_checked_with_texts(texts, small_dir):
    with pytest.raises(ValueError, match="`texts` must be a list of at least one text"):
        check_form("fp32", str(small_dir), texts)


@pytest.mark.parametrize("name", FORMS)
def test_every_form(name, small_dir, tmp_path):
    assert FORMS[name].name == name
    file = tmp_path / "model.tflite"
    content, error = check_form(name, str(small_dir), TEXTS)
    file.write_bytes(content)
    assert error < 0.2  # of logits from -1.5 to 1; a wrong mask or weight is off by more
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


def test_a_form_of_ones_own_is_as_good_as_ours(folder, small_dir):
    importlib.import_module("my_forms")
    _, error = check_form("bf16", str(small_dir), TEXTS)
    assert error > 10 * check_form("fp32", str(small_dir), TEXTS)[1]  # it was its code that ran


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
    with pytest.raises(ValueError, match=r"the exact model differs from .*, more than the bound of 0$"):
        tflite_files.export(str(small_dir), str(tmp_path / "model.tflite"), "exact")
    assert not any(tmp_path.iterdir())


def test_every_export_beyond_its_bound_is_refused(small, small_dir, tmp_path, monkeypatch):
    """The task says how far it is from the preset; one answer that is not a number is enough."""
    converted = tflite_files.converted(small, "fp32")  # once: here the errors decide
    monkeypatch.setattr(tflite_files, "converted", lambda *_: converted)
    for mode in FORMS:
        for errors, message in {
            (0.0, 0.0, 1e30): "by 1e+30, more than",
            (np.nan, 0.0, 0.0): "by nan",
        }.items():
            rest = iter(errors)
            monkeypatch.setattr(
                ClassifierAnswers, "compare", lambda *_, rest=rest: {"largest_error": next(rest)}
            )
            with pytest.raises(
                ValueError, match=re.escape(f"the {mode} model differs from the preset {message}")
            ):
                tflite_files.export(str(small_dir), str(tmp_path / "model.tflite"), mode)
    assert not any(tmp_path.iterdir())


def test_a_bound_is_a_share_of_a_range():
    form = form_named("dynamic")
    form.require_near(0.1999, 0.0)  # such as the equal logits of a head that has learnt nothing
    form.require_near(1.999, 10.0)
    for error, outputs_range in ((0.2001, 0.0), (2.001, 10.0), (np.nan, 10.0), (np.inf, 10.0)):
        with pytest.raises(ValueError, match="differs from the preset"):
            form.require_near(error, outputs_range)


def test_places_that_no_pointer_may_choose_do_not_widen_the_range(small, monkeypatch):
    """Or any error would be within the bound."""
    logits = np.float32([[3.0, LOWEST], [LOWEST, 1.0]])
    reference = types.SimpleNamespace(edge=lambda _: logits)
    monkeypatch.setattr(ClassifierAnswers, "reference", lambda _: reference)
    monkeypatch.setattr(ClassifierAnswers, "compare", lambda *_: {"largest_error": 0.0})
    monkeypatch.setattr(ClassifierAnswers, "edge_values", SpanAnswers.edge_values)
    monkeypatch.setattr(tflite_files.requests, "request", lambda *_: {"token_ids": np.ones([2, 2], np.int32)})
    monkeypatch.setattr(tflite_files, "runner", lambda *_: lambda _: logits)
    measured = tflite_files._measured(small, None, b"", "ids")
    assert (measured["largest_value"], measured["range"]) == (3, 2)


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
