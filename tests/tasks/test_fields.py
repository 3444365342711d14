"""The fields that a preset is scored on, where the flags leave them open."""

import dataclasses
import json
import types

import pytest

from convnlp.configs import common
from convnlp.data import Source, SourceError
from convnlp.models import (
    MultiLabelClassifier,
    PrefixLM,
    QuestionAnswerer,
    Seq2SeqLM,
    TextClassifier,
    TextRegressor,
)
from convnlp.tasks import Classification, Fields, MultiLabelClassification, Regression, fields
from tests import corpus

ROWS = corpus.reviews(10)


def found(folder, cls, recorded, rows, **given):
    (folder / "experiment.json").write_text(json.dumps({"task": recorded}))
    source = Source(f"jsonl:{corpus.write_jsonl(folder / 'a.jsonl', rows)}")
    return fields.of_preset(object.__new__(cls), str(folder), source, **given)


@pytest.mark.parametrize("content", ['{"task": [1]}', '{"task": "x"}', "[" * 100_000, '["task"]', "{"])
def test_a_preset_that_does_not_say_what_it_was_trained_on(tmp_path, content):
    (tmp_path / "experiment.json").write_text(content)
    assert fields.trained_on(str(tmp_path)) == ()


@pytest.mark.parametrize(
    ("recorded", "names", "given", "expected"),
    [
        ({"text_field": "a", "second_text_field": "b"}, "ab", None, ("a", "b")),  # and nothing else
        ({"text_field": "a", "second_text_field": "b"}, "abc", ("c",), ("c",)),
        ({"text_field": "a"}, "a", None, ("a",)),
        ({"text_field": "a"}, ("x", "text"), None, ("text",)),
    ],
)
def test_the_texts_that_a_preset_is_asked_about(tmp_path, recorded, names, given, expected):
    (tmp_path / "experiment.json").write_text(json.dumps({"task": recorded}))
    row = {name: f"the river {name}" for name in names}
    source = Source(f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', [row])}")
    assert fields.texts_of_preset(str(tmp_path), source, given) == expected


def test_a_pair_that_the_data_lack_is_named(tmp_path):
    recorded = {"text_field": "a", "second_text_field": "b"}
    (tmp_path / "experiment.json").write_text(json.dumps({"task": recorded}))
    source = Source(f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', [{'a': 'x', 'c': 'y'}])}")
    with pytest.raises(SourceError, match="no fields a and b, which the preset was trained on"):
        fields.texts_of_preset(str(tmp_path), source)


def renamed(text, label):
    return [{text: row["text"], label: row["label"]} for row in ROWS]


@pytest.mark.parametrize(
    ("recorded", "rows", "given", "expected"),
    [
        ({}, ROWS, {}, Fields()),
        ({"text_field": "v2", "label_field": "v1"}, renamed("v2", "v1"), {}, Fields(("v2",), "v1")),
        ({"text_field": "v2", "label_field": "v1"}, ROWS, {}, Fields()),
        ({}, renamed("review", "class"), {}, Fields(("review",), "class")),
        ({}, renamed("review", "class"), {"texts": ("other",)}, Fields(("other",), "class")),
        (
            {"text_field": "a", "second_text_field": "b"},
            [{"a": "x", "b": "y", "label": 0}],
            {"label_threshold": 0.5},
            Fields(("a", "b"), label_threshold=0.5),
        ),
        ({"label_threshold": 0.2}, ROWS, {}, Fields(label_threshold=0.2)),
        ({"label_threshold": 0.2}, ROWS, {"label_threshold": 0.5}, Fields(label_threshold=0.5)),
        (
            {"label_threshold": 0.2},
            renamed("review", "stars"),
            {"texts": ("review",), "label": "stars"},
            Fields(("review",), "stars", label_threshold=0.2),
        ),
        ({}, renamed("review", "class"), {"texts": ("text",), "label": "label"}, Fields()),
    ],
)
def test_of_a_classifier(tmp_path, recorded, rows, given, expected):
    assert found(tmp_path, TextClassifier, recorded, rows, **given) == expected


def test_columns_that_are_called_like_classes_are_no_labels_of_their_own(tmp_path):
    model = types.SimpleNamespace(labels=["review", "class"])
    source = Source(f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', renamed('review', 'class'))}")
    assert Classification.scored_fields(model, source, {}, {}) == Fields(("review",), "class")
    rows = [{"text": "x", "review": 0, "class": 1}]
    source = Source(f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', rows)}")
    assert MultiLabelClassification.scored_fields(model, source, {}, {}) == Fields()


@pytest.mark.parametrize(
    ("recorded", "given", "expected"),
    [({"text_field": "body"}, {}, "body"), ({}, {}, "body"), ({}, {"texts": ("a",)}, "a")],
)
def test_of_a_model_that_continues_texts(tmp_path, recorded, given, expected):
    rows = [{"id": i, "body": row["text"]} for i, row in enumerate(ROWS)]
    recorded = {"second_text_field": "id", **recorded}  # which it does not read
    assert found(tmp_path, PrefixLM, recorded, rows, **given).texts == (expected,)


def test_of_a_classifier_where_it_is_not_clear(tmp_path):
    with pytest.raises(SourceError, match="no field 'label'"):
        found(tmp_path, TextClassifier, {}, [{"text": "x", "stars": 1, "class": 1}])


@pytest.mark.parametrize(
    ("rows", "given", "expected"),
    [
        ([{"inputs": "a", "targets": "b"}], {}, Fields(("inputs",), target="targets")),
        ([{"inputs": "a", "targets": "b"}], {"target": "c"}, Fields(("inputs",), target="c")),
        ([{"inputs": "a", "stars": 1}], {"label": "stars"}, Fields(("inputs",), "stars")),
        ([{"inputs": "a", "text": "b"}], {}, Fields(("inputs",))),  # for what needs no target
        ([{"review": "a", "targets": "b"}], {"texts": ("review",)}, Fields(("review",), target="targets")),
        ([{"text": "a", "label": 1}], {"label": "label"}, Fields()),
        (ROWS, {}, Fields()),
    ],
)
def test_of_text_to_text(tmp_path, rows, given, expected):
    recorded = {"input_field": "inputs", "target_field": "targets"}
    assert found(tmp_path, Seq2SeqLM, recorded, rows, **given) == expected


def test_of_text_to_text_of_pairs(tmp_path):
    recorded = {"input_field": "question", "second_text_field": "passage", "target_field": "answer"}
    rows = [{"question": "a", "passage": "b", "answer": "c"}]
    assert found(tmp_path, Seq2SeqLM, recorded, rows) == Fields(("question", "passage"), target="answer")
    assert found(tmp_path, Seq2SeqLM, recorded, [{"question": "a", "answer": "c"}]) == Fields()


def test_of_text_to_text_where_the_target_is_a_class(tmp_path):
    recorded = {"input_field": "text", "target_field": "toxicity", "label_names": ["fine", "toxic"]}
    expected = Fields(("text",), label="toxicity", label_names=["fine", "toxic"])
    rows = [{"text": "a", "toxicity": 0.7}]
    assert found(tmp_path, Seq2SeqLM, recorded, rows) == expected
    recorded["label_threshold"] = 0.5
    expected = dataclasses.replace(expected, label_threshold=0.5)
    assert found(tmp_path, Seq2SeqLM, recorded, rows) == expected
    names = ("good", "bad")
    expected = dataclasses.replace(expected, label_names=names)
    assert found(tmp_path, Seq2SeqLM, recorded, rows, label_names=names) == expected


@pytest.mark.parametrize(("texts", "label"), [(("inputs",), "targets"), (("text",), "label")])
def test_of_text_to_text_where_the_field_of_the_class_is_given(tmp_path, texts, label):
    names = {"label_names": ["bad", "good"], "label_threshold": 0.5}
    recorded = {"input_field": "inputs", "target_field": "targets", **names}
    rows = [{texts[0]: "a", label: 0.7}]
    expected = found(tmp_path, Seq2SeqLM, recorded, rows)
    assert expected == Fields(texts, label, **names)
    assert found(tmp_path, Seq2SeqLM, recorded, rows, label=label) == expected


def test_of_text_to_text_where_the_names_of_the_classes_are_given(tmp_path):
    recorded = {"input_field": "inputs", "target_field": "targets"}
    rows = [{"inputs": "a", "targets": "good"}]
    expected = Fields(("inputs",), "targets", label_names=("bad", "good"))
    assert found(tmp_path, Seq2SeqLM, recorded, rows, label_names=("bad", "good")) == expected


@pytest.mark.parametrize(
    ("cls", "given", "message"),
    [
        (
            TextClassifier,
            {"target": "answers"},
            "`target_field` must not be given for a TextClassifier, which is scored without it. "
            "Received: 'answers'",
        ),
        (MultiLabelClassifier, {"label_threshold": 0.5}, "`label_threshold` must not be given for a Multi"),
        (TextRegressor, {"label_names": ["a"]}, "`label_names` must not be given for a TextRegressor"),
        (QuestionAnswerer, {"label": "answers"}, "`label_field` must not be given for a QuestionAnswerer"),
        (PrefixLM, {"target": "text"}, "`target_field` must not be given for a PrefixLM"),
        (
            Seq2SeqLM,
            {"target": "a", "label_names": ["a", "b"]},
            "`label_names` must not be given with `target_field`, which holds a text and no class. "
            "Received: target_field='a'",
        ),
    ],
)
def test_what_a_task_does_not_use_is_refused(tmp_path, cls, given, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        found(tmp_path, cls, {}, ROWS, **given)


@pytest.mark.parametrize("task", [Classification, Regression])
def test_a_model_that_compares_two_texts_is_scored_on_two(task):
    model = types.SimpleNamespace(compares_texts=True, num_classes=2, labels=["a", "b"], mean=0.0, scale=1.0)
    message = r"^`text_fields` must be two fields for a model that compares two texts. Received: \['text'\]$"
    with pytest.raises(ValueError, match=message):
        task.from_model(model, None, Fields())


@pytest.mark.parametrize("texts", [(), ("a", "b", "c")])
def test_a_model_is_scored_on_one_text_or_two(texts):
    with pytest.raises(ValueError, match=r"^`text_fields` must be one or two fields"):
        Fields(texts)


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"]])
def test_several_labels_have_a_name_each(names):
    """A single name would be compared with every label."""
    model = types.SimpleNamespace(num_classes=2, labels=["a", "b"])
    source = Source("jsonl:tests/none.jsonl")
    with pytest.raises(ValueError, match=r"^`label_names` must name the model's 2 labels"):
        MultiLabelClassification.from_model(model, source, Fields(label_names=names))


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("classification", {"label_field": "text"}, "`task.label_field` must be .* than task.text_field"),
        ("regression", {"text_field": "label"}, "`task.label_field` must be .* than task.text_field"),
        ("classification", {"second_text_field": "text"}, "`task.second_text_field` must be another field"),
        (
            "question_answering",
            dict.fromkeys(("question_field", "context_field"), "text"),
            "context_field` m",
        ),
    ],
)
def test_a_field_is_not_read_twice(tmp_path, kind, given, message):
    config = common.get_config()
    config.task.update({"kind": kind, "answers_field": "label", **given})
    source = Source(f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', ROWS)}")
    with pytest.raises(ValueError, match=message):
        fields.take(config, source)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("classification", {"label_field": "text", "label_names": ("good", "bad")}),
        ("text_to_text", {"input_field": "text", "target_field": "text"}),
        ("multi_label", {"label_field": "text", "options": {"label_fields": ("label",)}}),
    ],
)
def test_a_field_that_may_be_read_twice(tmp_path, kind, given):
    config = common.get_config()
    with config.unlocked():
        config.task.update({"kind": kind, **given})
    fields.take(config, Source(f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', ROWS)}"))
