"""`convnlp.fit_head`: a head in front of an encoder that stays as it was."""

import json

import keras
import numpy as np
import pytest

from convnlp import experiment, fit_head, scores, tasks
from convnlp.configs import finetune_classification
from convnlp.models import Seq2SeqBackbone, TextClassifier, Tokenizer
from convnlp.tasks.classification import ngrams
from tests import corpus

SIZE = {"num_layers": 1, "num_heads": 2, "hidden_dim": 64, "intermediate_dim": 64, "kernel_size": 3}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("head")
    corpus.write_jsonl(directory / "reviews.jsonl", corpus.reviews(256))
    keras.utils.set_random_seed(0)
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), **SIZE, num_decoder_layers=0, dropout=0.2)
    backbone.save_to_preset(str(directory / "preset"))
    tokenizer.save_to_preset(str(directory / "preset"))
    return directory


def run(directory, workdir, **changes):
    config = finetune_classification.get_config()
    fields = {
        "init_from": str(directory / "preset"),
        "data.source": f"jsonl:{directory}/reviews.jsonl",
        "data.test_source": f"jsonl:{directory}/reviews.jsonl",
        "data.split": "train[25%:]",
        "data.validation_split": "train[:25%]",
        "data.input_length": 64,
        "train.deterministic": False,  # a setting of the whole process
        "train.dtype": "float32",
    }
    config.update_from_flattened_dict({**fields, **changes})
    strategy = experiment.prepare(config, str(workdir))
    try:
        fit_head.run(config, str(workdir), strategy)
    finally:
        experiment.finish(str(workdir))


def test_without_a_validation_split_all_are_fitted_to_and_each_is_answered_by_others(directory, tmp_path):
    rows = sorted(corpus.reviews(256), key=lambda row: row["label"])  # the last fifth is of one class
    corpus.write_jsonl(tmp_path / "sorted.jsonl", rows)
    fields = {"data.split": "train", "data.validation_split": "", "data.test_source": ""}
    run(directory, tmp_path / "run", **fields, **{"data.source": f"jsonl:{tmp_path}/sorted.jsonl"})
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert (results["num_examples"], results["validation"]["num_examples"]) == (256, 256)
    assert results["num_folds"] == 5
    assert results["validation"]["f1"] > 0.7  # both classes are there

    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["reviewed"] == "validation"
    counts = np.array(report["sections"][1]["counts"])
    assert np.trace(counts) / 256 == pytest.approx(results["validation"]["accuracy"])
    assert "fitted without it" in (tmp_path / "run" / "report.html").read_text()


def test_the_head_is_fitted_and_the_encoder_stays(directory, tmp_path, capsys, caplog):
    run(directory, tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["validation"]["num_examples"] == 64
    assert results["test"]["accuracy"] > 0.8  # one of twelve words decides, of which random layers keep much
    assert results["penalty"] in fit_head.PENALTIES
    assert results["ngram_penalty"] in ngrams.PENALTIES
    assert results["num_examples"] == 192  # what is given for validation is not fitted to
    lines = capsys.readouterr().out.splitlines()
    assert f"test accuracy: {results['test']['accuracy']:.4f}" in lines
    assert f"test num_examples: {results['test']['num_examples']:.0f}" in lines
    assert "reading 192 texts with the encoder" in caplog.messages

    report = json.loads((tmp_path / "report.json").read_text())
    scores = report["scores"]["test"]["values"]
    assert scores["accuracy"]["value"] == results["test"]["accuracy"]
    low, high = scores["accuracy"]["interval"]
    assert low < results["test"]["accuracy"] <= high
    assert [section["kind"] for section in report["sections"]][:3] == ["table", "confusion", "calibration"]
    counts = np.array(report["sections"][1]["counts"])
    assert counts.sum() == 256
    assert np.trace(counts) / 256 == pytest.approx(results["test"]["accuracy"])
    assert report["data"]["train"]["num_examples"] == 192
    assert any(
        "to a training example" in sentence for sentence in report["warnings"]
    )  # the test set holds them
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")

    classifier = TextClassifier.from_preset(str(tmp_path / "preset"))
    before = Seq2SeqBackbone.from_preset(str(directory / "preset"))
    for one, other in zip(classifier.backbone.weights, before.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    texts = [row["text"] for row in corpus.reviews(256)]
    labels = [row["label"] for row in corpus.reviews(256)]
    accuracy = np.mean(classifier.predict(texts, verbose=0).argmax(-1) == labels)
    assert accuracy == pytest.approx(results["test"]["accuracy"])
    assert classifier.pooling == "layers"
    card = (tmp_path / "preset" / "README.md").read_text()
    assert "test accuracy" in card
    assert f"Started from: {directory}/preset" in card


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"init_from": ""}, "`init_from` must name a preset, whose encoder is used. Received: init_from=''"),
        ({"task.kind": "text_to_text"}, "`task.kind` must be one of classification, multi_label, regression"),
    ],
)
def test_what_has_no_head_to_fit_is_refused(directory, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        run(directory, tmp_path, **changes)
    assert not (tmp_path / "preset").exists()


def test_a_pooling_that_cannot_be_fitted_is_refused_before_the_data_are_read(tmp_path):
    tokenizer = Tokenizer(corpus.tiny_proto())
    sizes = {**SIZE, "num_layers": 2, "pool_size": [1, 2]}
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), **sizes, num_decoder_layers=0)
    for part in (backbone, tokenizer):
        part.save_to_preset(str(tmp_path / "preset"))
    with pytest.raises(ValueError, match=r"`task.pooling` must be one of .* if only the head is fitted"):
        run(tmp_path, tmp_path / "run", **{"task.pooling": "class_attention"})  # there is no reviews.jsonl


def test_what_the_head_is_fitted_to():
    sizes = {"num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "num_decoder_layers": 0}
    plain, merging = (
        Seq2SeqBackbone(50, num_layers=2, **sizes, pool_size=size).encoder for size in (1, [1, 2])
    )
    assert fit_head.pooling_for(plain, "attention") == "layers"
    assert fit_head.pooling_for(merging, "mean_max") == "mean_max"
    message = r"`task.pooling` must be one of mean, .*, pair if only the head .* Received: 'class_attention'"
    with pytest.raises(ValueError, match=message):
        fit_head.pooling_for(merging, "class_attention")


@pytest.mark.parametrize(
    ("kind", "metric"), [("multi_label", "f1_macro"), ("regression", "spearman")], ids=["labels", "numbers"]
)
def test_several_labels_and_numbers(directory, tmp_path, kind, metric):
    rows = [
        {
            "text": row["text"],
            "label": ["film", "good"][: 1 + row["label"]],
            "stars": 150 + 300 * row["label"],
        }
        for row in corpus.reviews(256)
    ]
    rows[0]["label"] = ["good"]  # one text without "film"
    corpus.write_jsonl(tmp_path / "rows.jsonl", rows)
    fields = {
        "task.kind": kind,
        "task.label_field": "label" if kind == "multi_label" else "stars",
        "data.source": f"jsonl:{tmp_path}/rows.jsonl",
        "data.test_source": f"jsonl:{tmp_path}/rows.jsonl",
    }
    run(directory, tmp_path / "run", **fields)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["penalty"] in fit_head.PENALTIES
    assert results["num_examples"] == 192
    assert results["test"][metric] > 0.8
    model = tasks.load(str(tmp_path / "run" / "preset"))
    assert model.pooling == "layers"
    outputs = model.predict([row["text"] for row in rows], verbose=0)
    if kind == "multi_label":
        found = scores.of_several_labels(
            outputs, np.array([["film" in r["label"], "good" in r["label"]] for r in rows], "float32")
        )
    else:
        found = scores.of_numbers(outputs[:, 0], np.array([row["stars"] for row in rows]))
    assert found[metric] == pytest.approx(results["test"][metric])
    before = Seq2SeqBackbone.from_preset(str(directory / "preset"))
    for one, other in zip(model.backbone.weights, before.weights, strict=True):
        np.testing.assert_array_equal(one, other)
