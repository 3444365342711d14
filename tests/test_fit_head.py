"""`convnlp.fit_head`: a head in front of an encoder that stays as it was."""

import json
import os
import types

import keras
import numpy as np
import pytest

from convnlp import fit_head, tasks
from convnlp.configs import finetune_classification
from convnlp.data import SourceError
from convnlp.finetuning import mistakes
from convnlp.models import Seq2SeqBackbone, TextClassifier, Tokenizer
from convnlp.runs import experiment, inputs
from convnlp.tasks import scores
from convnlp.tasks.classification import ngrams, self_training
from convnlp.training import storage
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


def test_wrong_labels_are_listed_with_their_records(directory, tmp_path):
    rows = [{"number": i, **row} for i, row in enumerate(corpus.reviews(128))]
    for row in rows[40:44]:
        row["label"] = 1 - row["label"]
    fields = {"data.split": "train", "data.validation_split": "", "data.test_source": ""}
    source = f"jsonl:{corpus.write_jsonl(tmp_path / 'rows.jsonl', rows)}"
    run(directory, tmp_path / "run", **fields, **{"data.source": source})
    listed = (tmp_path / "run" / "mistakes_validation.jsonl").read_text().splitlines()
    first = [json.loads(line) for line in listed[:4]]
    assert sorted(line["number"] for line in first) == [40, 41, 42, 43]
    for line in first:
        row = rows[line["number"]]
        assert line.items() >= row.items()
        assert line["predicted_label"] == str(1 - row["label"])
        assert line["probability"] > 0.5 > line["given_probability"]


def test_rows_that_have_changed_since_they_were_read_are_not_listed(directory, tmp_path, monkeypatch, caplog):
    """Their places may be those of other rows. The training is over: it must not end in an error."""
    rows = [{"number": i, **row} for i, row in enumerate(corpus.reviews(128))]
    for row in rows[40:44]:
        row["label"] = 1 - row["label"]
    (tmp_path / "data").mkdir()
    path = corpus.write_jsonl(tmp_path / "data" / "rows.jsonl", rows)
    listed, calls = tmp_path / "run" / "mistakes_validation.jsonl", []

    def write(*arguments):
        calls.append(arguments)
        os.remove(path)
        return write_mistakes(*arguments)

    write_mistakes = mistakes.write
    monkeypatch.setattr(mistakes, "write", write)
    fields = {"data.source": f"jsonl:{tmp_path}/data/*.jsonl", "data.split": "train"}
    run(directory, tmp_path / "run", **fields, **{"data.validation_split": "", "data.test_source": ""})
    assert (tmp_path / "run" / "results.json").exists()
    assert not listed.exists()
    beginning = "mistakes_validation is not written, since its rows cannot be read again: jsonl:"
    assert caplog.messages[-1].startswith(f"{beginning}{tmp_path}/data/*.jsonl: no such file")

    inserted = [rows[0], *rows]
    relabelled = [{**row, "label": 1 - row["label"]} for row in rows]  # of the same size
    for changed in (inserted, rows[:40], relabelled):
        corpus.write_jsonl(path, changed)
        listed.write_text("of an earlier start")
        assert write_mistakes(*calls[0]) == []
        assert not listed.exists()
        assert caplog.messages[-1] == (
            f"{beginning}{tmp_path}/data/*.jsonl, split train: the files have changed since the run began, "
            "by the sums in config.json"
        )
    corpus.write_jsonl(path, rows)
    assert write_mistakes(*calls[0]) == [str(listed)]
    corpus.write_jsonl(tmp_path / "data" / "more.jsonl", rows)  # it is read first
    assert write_mistakes(*calls[0]) == []


def test_rows_of_tables_with_other_columns_are_listed_too(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("text,label\nA fine day.,bad\n")
    (tmp_path / "data" / "b.csv").write_text("text,label,day\nA lost day.,good,7\n")
    config = finetune_classification.get_config()
    config.data.update({"source": f"csv:{tmp_path}/data/*.csv", "validation_split": ""})
    storage.write_json(tmp_path / "config.json", {"inputs": inputs.fingerprints(config)})
    (tmp_path / "mistakes_validation.csv").write_text("of an earlier start")
    answers = [(1, {"label": "bad"}), (0, {"label": "good"})]
    judged = types.SimpleNamespace(
        mistakes=lambda task: answers, examples=types.SimpleNamespace(places=np.arange(2))
    )
    path = tmp_path / "mistakes_validation.jsonl"
    assert mistakes.write(config, str(tmp_path), None, {"validation": judged}) == [str(path)]
    assert [*map(json.loads, path.read_text().splitlines())] == [
        {"text": "A lost day.", "label": "good", "day": "7", "predicted_label": "bad"},
        {"text": "A fine day.", "label": "bad", "predicted_label": "good"},
    ]
    assert not (tmp_path / "mistakes_validation.csv").exists()


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


def unlabelled(tmp_path, rows):
    return f"jsonl:{corpus.write_jsonl(tmp_path / 'unlabelled.jsonl', rows)}"


def test_texts_without_labels_are_answered_and_learned_from(directory, tmp_path, capsys, caplog):
    rows = corpus.reviews(600)  # the first 256 of them are those with labels
    fields = {"data.split": "train[:40]", "data.test_source": ""}
    run(directory, tmp_path / "without", **fields)
    capsys.readouterr()
    texts = [{"text": row["text"].removesuffix(".") if i % 2 else row["text"]} for i, row in enumerate(rows)]
    fields["task.unlabelled_source"] = unlabelled(tmp_path, texts)
    run(directory, tmp_path / "with", **fields)
    results, before = (
        json.loads((tmp_path / name / "results.json").read_text()) for name in ("with", "without")
    )
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("self-training")]
    report = results["self_training"]
    assert f" {report['num_texts']} texts answered, {report['num_taken']} taken, " in line
    assert "self_training" not in before
    labelled = {row["text"] for row in rows[:64]}  # 40 to learn from, and 64 to validate on
    num_others = sum(row["text"] not in labelled for row in rows)
    assert num_others - 5 < report["num_texts"] <= num_others  # a few are nearly equal to one with a label
    assert f"left out {600 - report['num_texts']} of 600 texts, which are equal or nearly" in caplog.text
    assert f"reading {report['num_texts']} texts without labels with the encoder" in caplog.messages

    classifiers = [
        TextClassifier.from_preset(str(tmp_path / name / "preset")) for name in ("with", "without")
    ]
    after, former = (each.get_weights() for each in classifiers)
    assert [weight.shape for weight in after] == [weight.shape for weight in former]
    is_used = any(report["shares"][1:])
    assert is_used == (report["loss"][1] < report["loss"][0])
    assert is_used == any((one != other).any() for one, other in zip(after, former, strict=True))
    logits = classifiers[0].predict([row["text"] for row in rows[:64]], verbose=0)
    hits = logits.argmax(-1) == [row["label"] for row in rows[:64]]
    assert np.mean(hits) == pytest.approx(results["validation"]["accuracy"])


def test_what_the_folds_reject_leaves_every_bit_as_it_was(directory, tmp_path, monkeypatch):
    monkeypatch.setattr(self_training.joint, "mixture", lambda members, *_: np.eye(len(members))[0])
    fields = {"data.test_source": ""}
    run(directory, tmp_path / "without", **fields)
    texts = [{"text": text} for text in corpus.documents(50)]
    run(directory, tmp_path / "with", **fields, **{"task.unlabelled_source": unlabelled(tmp_path, texts)})
    after, former = (
        TextClassifier.from_preset(str(tmp_path / name / "preset")).get_weights()
        for name in ("with", "without")
    )
    for one, other in zip(after, former, strict=True):
        np.testing.assert_array_equal(one, other)
    results, before = (
        json.loads((tmp_path / name / "results.json").read_text()) for name in ("with", "without")
    )
    assert results["self_training"]["shares"] == [1, 0, 0]
    assert results["validation"] == before["validation"]


@pytest.mark.slow
@pytest.mark.parametrize("is_pair", [False, True], ids=["without n-grams", "pairs"])
def test_an_encoder_alone_and_pairs_learn_from_texts_without_labels_too(directory, tmp_path, is_pair):
    rows = [{**row, "other": row["text"][::-1]} for row in corpus.reviews(400)]
    source = corpus.write_jsonl(tmp_path / "rows.jsonl", rows[:60])
    fields = {"data.source": f"jsonl:{source}", "data.split": "train", "data.validation_split": ""}
    fields |= {"task.second_text_field": "other"} if is_pair else {"task.options.ngram_buckets": 0}
    texts = [{name: row[name] for name in ("text", "other")} for row in rows[60:]]
    fields["task.unlabelled_source"] = unlabelled(tmp_path, texts)
    run(directory, tmp_path / "run", **fields, **{"data.test_source": ""})
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert len(results["self_training"]["shares"]) == (3 if is_pair else 2)
    assert results["self_training"]["num_taken"] > 200


@pytest.mark.parametrize(
    ("rows", "changes", "error", "message"),
    [
        (None, {}, SourceError, "nothing.jsonl: no such file"),
        ([], {}, SourceError, r"unlabelled.jsonl"),
        (
            [{"body": "A day."}],
            {},
            SourceError,
            r"unlabelled.jsonl, line 1: no field 'text' \(available: 'bo",
        ),
        (
            [{"text": row["text"]} for row in corpus.reviews(9)],
            {},
            ValueError,
            r"`task.unlabelled_source` must have texts that are not among .* Received: 'jsonl:.*', with 9 t",
        ),
        (
            [{"text": "A day."}],
            {"task.kind": "multi_label"},
            ValueError,
            r"`task.unlabelled_source` must be empty here unless `task.kind` is classification\. Received: "
            "task.unlabelled_source='jsonl:.*', task.kind='multi_label'",
        ),
    ],
    ids=["missing", "empty", "no text", "all labelled", "several labels"],
)
def test_texts_that_cannot_be_learned_from_are_refused_before_the_encoder_reads(
    directory, tmp_path, monkeypatch, rows, changes, error, message
):
    monkeypatch.setattr(fit_head.rows, "vectors_of", None)
    source = f"jsonl:{tmp_path}/nothing.jsonl" if rows is None else unlabelled(tmp_path, rows)
    with pytest.raises(error, match=message):
        run(directory, tmp_path / "run", **{"task.unlabelled_source": source, **changes})


def test_a_slice_of_one_class_is_refused_before_the_encoder_reads(directory, tmp_path, monkeypatch):
    rows = sorted(corpus.reviews(64), key=lambda row: row["label"])
    corpus.write_jsonl(tmp_path / "sorted.jsonl", rows)
    monkeypatch.setattr(fit_head.rows, "vectors_of", lambda *_: pytest.fail("the encoder has read"))
    with pytest.raises(
        SourceError, match=r"split train\[:20%\]: the examples to train on must have at least two"
    ):
        run(
            directory,
            tmp_path / "run",
            **{"data.source": f"jsonl:{tmp_path}/sorted.jsonl", "data.split": "train[:20%]"},
        )


def test_texts_that_the_encoder_mixes_are_refused_before_the_data_are_read(tmp_path):
    tokenizer = Tokenizer(corpus.tiny_proto())
    sizes = {**SIZE, "num_decoder_layers": 0, "max_sequence_length": 64}
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), mixer="linformer", **sizes)
    for part in (backbone, tokenizer):
        part.save_to_preset(str(tmp_path / "preset"))
    fields = {"task.pooling": "pair", "task.second_text_field": "other"}
    message = r"`task.pooling` must not be 'pair' for .*task.pooling='pair', .*mixer=\['linformer'\]$"
    with pytest.raises(ValueError, match=message):
        run(tmp_path, tmp_path / "run", **fields)  # there is no reviews.jsonl


def test_a_pooling_that_cannot_be_fitted_is_refused_before_the_data_are_read(tmp_path):
    tokenizer = Tokenizer(corpus.tiny_proto())
    sizes = {**SIZE, "num_layers": 2, "pool_size": [1, 2]}
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), **sizes, num_decoder_layers=0)
    for part in (backbone, tokenizer):
        part.save_to_preset(str(tmp_path / "preset"))
    with pytest.raises(ValueError, match=r"`task.pooling` must be one of .* if only the head is fitted"):
        run(tmp_path, tmp_path / "run", **{"task.pooling": "class_attention"})  # there is no reviews.jsonl


def test_what_the_head_is_fitted_to(caplog):
    sizes = {"num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "num_decoder_layers": 0}
    plain, merging = (
        Seq2SeqBackbone(50, num_layers=2, **sizes, pool_size=size).encoder for size in (1, [1, 2])
    )
    assert fit_head.pooling_for(plain, "attention", 1) == "layers"
    (message,) = caplog.messages
    assert message.endswith("only a head is fitted: task.pooling=attention; it is layers instead")
    assert fit_head.pooling_for(plain, "pair", 1) == "pair"
    assert [fit_head.pooling_for(plain, "auto", count) for count in (1, 2)] == ["layers", "pair"]
    assert fit_head.pooling_for(merging, "auto", 2) == "mean_max"
    assert fit_head.pooling_for(merging, "mean", 1) == "mean"
    assert caplog.messages == [message]  # for no other
    message = r"`task.pooling` must be one of mean, .*, pair if only the head .* Received: 'class_attention'"
    with pytest.raises(ValueError, match=message):
        fit_head.pooling_for(merging, "class_attention", 1)


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
