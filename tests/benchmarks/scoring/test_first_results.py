"""`benchmarks.first_results`: the peers, the paired test, the flags of the runs and the page."""

import dataclasses
import json
import types

import numpy as np
import pytest

from benchmarks import first_results, pages
from benchmarks.scoring import minilm, ours, page, paired, peers, sets
from benchmarks.scoring.sets import SETS
from benchmarks.weights import sum_of_weights
from convnlp.configs import finetune_classification
from tests import corpus
from tests.small_classifier import small_classifier

WORDS = {0: "dull grey rain", 1: "bright warm sun"}


@pytest.mark.parametrize("name", peers.PEERS)
def test_a_peer_learns_what_words_tell(name):
    labels = [0, 1] * 20
    texts = [f"{WORDS[label]} number {i}" for i, label in enumerate(labels)]
    answers, penalty = peers.predictions(
        peers.PEERS[name](), texts, labels, ["so bright, and warm!", "rain, and dull!"]
    )
    assert answers == [1, 0]
    (chosen,) = penalty.values()
    assert chosen in next(iter(peers.PEERS[name]()[2].values()))


def test_the_paired_difference_is_that_of_the_means():
    labels = np.array([0, 1] * 200)
    theirs = np.where(np.arange(400) % 5 == 0, 1 - labels, labels)  # 80 %
    ours = np.stack([labels, np.where(np.arange(400) % 10 == 0, 1 - labels, labels)])  # 100 % and 90 %
    mean, low, high = paired.difference(ours, theirs, labels)
    assert mean == pytest.approx(0.15)
    # The plain formula of the standard error of a mean, of 400 texts.
    gains = np.mean(ours == labels, axis=0) - (theirs == labels)
    error = gains.std() / 20
    assert low == pytest.approx(mean - 1.96 * error, abs=0.004)
    assert high == pytest.approx(mean + 1.96 * error, abs=0.004)


def test_pairs_count_not_totals():
    """Two models that err on the same texts differ by nothing, however few the texts."""
    labels = np.arange(50) % 2
    theirs = np.where(np.arange(50) < 20, 1 - labels, labels)
    assert paired.difference([theirs], theirs, labels) == (0.0, 0.0, 0.0)


def test_their_seeds_are_averaged_too():
    labels = np.array([0, 1] * 200)
    wrong = np.where(np.arange(400) % 5 == 0, 1 - labels, labels)
    assert paired.difference([labels], [wrong, labels], labels)[0] == pytest.approx(0.1)


def test_mcnemars_test_by_hand():
    # Eight texts that we alone get right, two that they alone do: the two tails of a fair coin thrown ten
    # times, 2 (1 + 10 + 45) / 1024.
    ours = np.array([True] * 8 + [False] * 2 + [True] * 50 + [False] * 40)
    theirs = np.array([False] * 8 + [True] * 2 + [True] * 50 + [False] * 40)
    assert paired.mcnemar(ours, theirs) == pytest.approx(112 / 1024)
    assert paired.mcnemar(theirs, ours) == pytest.approx(112 / 1024)
    assert paired.mcnemar(ours, ours) == 1.0


def test_the_flags_of_a_run_are_fields_of_the_config():
    config = finetune_classification.get_config()
    for found in SETS.values():
        fields = ours.training_fields(found, "3", "data")
        assert fields.pop("config.seed") == "3"
        for name, value in fields.items():
            section, field = name.removeprefix("config.").split(".")
            config[section][field] = value  # raises for a field that does not exist
        assert len(config.task.label_names) == found.classes


class _Session:
    """An encoder whose state of a token is its id, 384 times, every other one negative."""

    def run(self, _, inputs):
        ids = inputs["input_ids"].astype("float32")
        return [ids[..., None] * np.where(np.arange(384) % 2, -1, 1)]


def _encoded(texts):
    longest = max(len(text) for text in texts)
    rows = []
    for text in texts:
        pads = longest - len(text)
        rows.append(
            types.SimpleNamespace(
                ids=[*text.encode(), *[99] * pads], attention_mask=[1] * len(text) + [0] * pads
            )
        )
    return rows


def test_embeddings_leave_pads_out_and_keep_the_order(monkeypatch):
    loaded = _Session(), types.SimpleNamespace(encode_batch=_encoded)
    monkeypatch.setattr(minilm, "_loaded", lambda directory: loaded)
    session, long, short = _Session(), "a" * 40, "a"
    found = minilm.embeddings("anywhere", [long, "\x00\x02", *[short] * 40])
    signs = np.where(np.arange(384) % 2, -1, 1) / 384**0.5  # of length 1
    np.testing.assert_allclose(found, np.tile(signs, (42, 1)), rtol=1e-5)
    mixed = np.stack([session.run(None, {"input_ids": np.array([[1]])})[0][0, 0], np.ones(384)])
    monkeypatch.setattr(
        _Session, "run", lambda self, _, inputs: [mixed[(inputs["input_ids"] > 97).astype(int)]]
    )
    first, second = minilm.embeddings("anywhere", ["bb", "a"])  # the shorter one goes through first
    np.testing.assert_allclose(first, np.ones(384) / 384**0.5, rtol=1e-5)
    np.testing.assert_allclose(second, signs, rtol=1e-5)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """SST-2 and IMDb of four texts, runs that leave a small classifier untrained, and which were started."""
    (tmp_path / "classification").mkdir()
    for part in ("sst2.train", "sst2.valid", "sst2.test", "imdb.train", "imdb.test"):
        rows = [{"text": text, "label": i % 2} for i, text in enumerate(("one", "a two", "three", "four"))]
        corpus.write_jsonl(tmp_path / "classification" / f"{part}.jsonl.gz", rows)
    started = []

    def run_once(program, run, fields, done):
        if not done.exists():
            started.append((program, run.name, fields.get("config.init_from")))
            small_classifier(["dynamic_conv"], 16, ["0", "1"]).save_to_preset(str(run / "preset"))
            (run / "checkpoints").mkdir()
            taught = {"num_texts": 3, "num_taken": 2, "shares": [1.0, 0.0, 0.0], "loss": [0.1, 0.2]}
            results = {"validation": {"accuracy": 0.5}, "seconds": 1.0}
            if "config.task.unlabelled_source" in fields:
                results["self_training"] = taught
            done.write_text(json.dumps(results))

    monkeypatch.setattr(ours, "run_once", run_once)
    return ours.Runs(tmp_path, tmp_path / "runs"), started


def test_the_file_gives_the_answers_of_the_model_it_was_made_from(runs):
    runs, started = runs
    fine_tuned = first_results.cell("finetune", SETS["sst2"], "0", runs)
    file = first_results.cell("tflite", SETS["sst2"], "0", runs)
    assert file["predictions"] == fine_tuned["predictions"]
    assert 0 < file["megabytes"] < 1
    assert started == [("convnlp.finetune", "sst2_finetune_0", None)]  # once for both
    assert not (runs.workdir / "sst2_finetune_0" / "checkpoints").exists()


def test_the_rest_of_a_training_file_is_learned_from_without_labels(runs):
    runs, started = runs
    found = first_results.cell("self_training", SETS["imdb_1000"], "0", runs)
    assert (len(found["predictions"]), found["num_texts"], found["num_taken"]) == (4, 3, 2)
    first_results.cell("fit_head", SETS["imdb_1000"], "0", runs)
    assert [run for _, run, _ in started] == ["imdb_1000_self_training_0", "imdb_1000_fit_head_0"]


def test_a_head_that_has_learned_from_the_rest_teaches_a_model(runs):
    runs, started = runs
    assert len(first_results.cell("taught", SETS["imdb_1000"], "0", runs)["predictions"]) == 4
    assert [(program, run) for program, run, _ in started] == [
        ("convnlp.fit_head", "imdb_1000_self_training_0"),
        ("convnlp.finetune", "imdb_1000_taught_0"),
    ]


def test_the_control_is_another_preset_fine_tuned_alike(runs, monkeypatch):
    runs, started = runs
    monkeypatch.setattr(ours, "classes", lambda preset, source: [0, 1])
    first_results.cell("finetune", SETS["sst2_after_imdb"], "0", runs)
    for name in ("one", "another"):
        control = runs.data_dir / name
        control.mkdir()
        (control / "model.weights.h5").write_text(name)
        of_control = dataclasses.replace(runs, control_dir=str(control))
        for _ in range(2):  # the second finds its runs done
            first_results.cell("control", SETS["sst2_after_imdb"], "0", of_control)
        first = runs.workdir / f"control_{sum_of_weights(control)}" / "imdb_finetune_0" / "preset"
        assert started[-2:] == [
            ("convnlp.finetune", "imdb_finetune_0", str(control)),
            ("convnlp.finetune", "sst2_after_imdb_finetune_0", first),
        ]
    assert len(started) == 6


def test_all_cells_are_of_the_preset_as_it_is_shipped(tmp_path):
    (tmp_path / "model.weights.h5").write_text("now")
    weights, found = sum_of_weights(tmp_path), {"preset": "p"}
    first_results.check_preset(found, tmp_path)
    first_results.check_preset(found, tmp_path)
    assert found == {"preset": "p", "weights": weights}
    with pytest.raises(ValueError, match=f"^`docs_dir` must hold cells of p .* {weights}. .* before$"):
        first_results.check_preset({"preset": "p", "weights": "before"}, tmp_path)


def test_all_cells_of_the_control_are_of_one_preset(tmp_path):
    for name in ("one", "copy", "another"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.weights.h5").write_text(name.replace("copy", "one"))
    found = {}
    for name in ("one", "copy"):
        assert first_results.record_control(found, str(tmp_path / name)) == str(tmp_path / name)
    sums = [sum_of_weights(tmp_path / name) for name in ("one", "another")]
    with pytest.raises(
        ValueError, match=f"^`control` must be .* {sums[0]}. Received: .*another.* {sums[1]}$"
    ):
        first_results.record_control(found, str(tmp_path / "another"))
    assert found == {"control": sums[0]}


def test_self_training_comes_after_the_labels_of_another_set(runs, monkeypatch):
    runs, started = runs
    monkeypatch.setattr(ours, "classes", lambda preset, source: [0, 1])
    first_results.cell("self_training", SETS["sst2_after_imdb"], "0", runs)
    assert [(program, run) for program, run, _ in started] == [
        ("convnlp.finetune", "imdb_finetune_0"),
        ("convnlp.fit_head", "sst2_after_imdb_self_training_0"),
    ]


def test_labels_of_another_set_come_first(runs):
    runs, started = runs
    for seed in ("0", "1"):
        assert len(first_results.cell("finetune", SETS["sst2_after_imdb"], seed, runs)["predictions"]) == 4
    first = runs.workdir / "imdb_finetune_0"
    assert started == [
        ("convnlp.finetune", "imdb_finetune_0", None),
        ("convnlp.finetune", "sst2_after_imdb_finetune_0", first / "preset"),
        ("convnlp.finetune", "sst2_after_imdb_finetune_1", first / "preset"),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["minilm"], "here"), "`minilm` must be .* holds model.onnx. Received: here"),
        (
            (["bert"],),
            "`--models` must be among tfidf, hashed, minilm, fit_head, self_training, finetune, control, "
            "taught, tflite. Received: 'bert'",
        ),
        ((["control"],), "`control` must be a preset for .* Received: control=None"),
        ((["control"], None, "classification"), "`control` must be a preset for "),
    ],
)
def test_what_is_wrong_with_a_model_is_said_first(tmp_path, monkeypatch, arguments, message):
    (tmp_path / "classification").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        first_results.check(*arguments)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["sst2_after_imdb"], "`--data_dir` must hold classification/imdb.train.jsonl.gz"),
        (["sst2", "sst3"], "`--sets` must be among sst2, .* Received: 'sst3'"),
        (["trec6", "sst5"], "`--data_dir` must hold classification/sst5.train.jsonl.gz"),
    ],
)
def test_what_is_wrong_with_a_set_is_said_first(tmp_path, names, message):
    (tmp_path / "classification").mkdir()
    for part in ("trec6.train", "trec6.test", "sst2.train", "sst2.test", "sst2.valid"):
        corpus.write_jsonl(tmp_path / "classification" / f"{part}.jsonl.gz", [{"text": "a", "label": 0}])
    with pytest.raises(ValueError, match=message):
        sets.check(names, tmp_path)


def test_a_peer_without_its_packages_is_refused_first(tmp_path, monkeypatch):
    for name in minilm.FILES:
        (tmp_path / name).touch()
    monkeypatch.setattr(first_results.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"`minilm` needs onnxruntime: pip install -r "):
        first_results.check(["minilm"], tmp_path)


def test_the_page(tmp_path):
    labels = [0, 1] * 50
    wrong = [0] * 100
    file = {"predictions": [1, *labels[1:]], "megabytes": 6.04}
    cells = {
        "sst2": {
            "tfidf": {"0": {"predictions": wrong}},
            "minilm": {"0": {"predictions": [*labels[:-10], *[0] * 10]}},
            "tflite": {"0": file},
            "finetune": {"0": {"predictions": labels}, "1": {"predictions": [*labels[:-1], 0]}},
            "control": {"0": {"predictions": [*labels[:-2], 1, 0]}},
        },
        "trec6": {"hashed": {"0": {"predictions": labels}}},
        "ag_news_1000": {
            "fit_head": {"0": {"predictions": wrong}},
            "self_training": {"0": {"predictions": labels, "num_texts": 21000}},
            "finetune": {seed: {"predictions": [*labels[:-2], 1, 0]} for seed in "012"},
            "taught": {"0": {"predictions": [*labels[:-1], 0]}, "1": {"predictions": labels}},
        },
    }
    (tmp_path / "first_results.md").write_text(f"before\n{page.BEGIN}\n{pages.END}\nafter\n")
    found = {"preset": ours.PRESET, "cells": cells, "labels": dict.fromkeys(cells, labels)}
    first_results.write(found, tmp_path / "first_results.json", tmp_path / "first_results.md")
    lines = (tmp_path / "first_results.md").read_text().splitlines()
    row, of_control, of_file = [line for line in lines if line.startswith("| SST-2")]
    assert of_control.startswith("| SST-2, sentences | 99.5 ± 6.4 | 98.0 | 1 | +1.5 (")
    assert of_file == "| SST-2, sentences | 6.0 | 99.00 | 100.00 | +1.00 | 99.0% |"
    peers_of_it = "50.0 (40.4 to 59.6) |  | 95.0 (88.8 to 97.8) | "
    assert row.startswith(f"| SST-2, sentences | 100 | {peers_of_it} | **99.5 ± 6.4** | 2 | +4.5 (")
    assert any(line.startswith("| TREC-6 | 100 |  | 100.0 (") for line in lines)
    _, taught = [line for line in lines if line.startswith("| AG News, 1,000 texts")]
    scores = "50.0 (40.4 to 59.6) | 100.0 (96.3 to 100.0) | +50.0 ("
    assert taught.startswith(f"| AG News, 1,000 texts | 21,000 | {scores}")
    assert "| 98.0 ± 0.0 | 99.5 ± 6.4 | +1.5 (" in taught  # over the two seeds that both have
    assert (lines[0], lines[-1]) == ("before", "after")
    assert json.loads((tmp_path / "first_results.json").read_text()) == found
