"""`benchmarks.scores`: the peers, the paired test, the flags of the runs and the page."""

import json

import numpy as np
import pytest

from benchmarks import pages, scores
from benchmarks.scoring import page, paired, peers
from benchmarks.scoring.sets import SETS
from convnlp.configs import finetune_classification
from tests import corpus

WORDS = {0: "dull grey rain", 1: "bright warm sun"}


@pytest.mark.parametrize("name", peers.PEERS)
def test_a_peer_learns_what_words_tell(name):
    labels = [0, 1] * 20
    texts = [f"{WORDS[label]} number {i}" for i, label in enumerate(labels)]
    answers, penalty = peers.predictions(name, texts, labels, ["so bright and warm", "rain and dull"])
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


def test_the_flags_of_a_run_are_fields_of_the_config():
    config = finetune_classification.get_config()
    for found in SETS.values():
        fields = scores.training_fields(found, "3", "data")
        assert fields.pop("config.seed") == "3"
        for name, value in fields.items():
            section, field = name.removeprefix("config.").split(".")
            config[section][field] = value  # raises for a field that does not exist
        assert len(config.task.label_names) == found.classes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["sst2", "sst3"], ["tfidf"]), "`sets` must be of sst2, .* Received: 'sst3'"),
        ((["sst2"], ["bert"]), "`models` must be of tfidf, hashed, fit_head, finetune. Received: 'bert'"),
        ((["trec6", "sst2"], ["tfidf"]), "`data_dir` must hold classification/sst2.valid.jsonl.gz"),
    ],
)
def test_what_is_wrong_is_said_first(tmp_path, arguments, message):
    (tmp_path / "classification").mkdir()
    for part in ("trec6.train", "trec6.test", "sst2.train", "sst2.test"):
        corpus.write_jsonl(tmp_path / "classification" / f"{part}.jsonl.gz", [{"text": "a", "label": 0}])
    with pytest.raises(ValueError, match=message):
        scores.check(*arguments, tmp_path)


def test_the_page(tmp_path):
    labels = [0, 1] * 50
    wrong = [0] * 100
    cells = {
        "sst2": {
            "tfidf": {"0": {"predictions": wrong}},
            "finetune": {"0": {"predictions": labels}, "1": {"predictions": [*labels[:-1], 0]}},
        },
        "trec6": {"hashed": {"0": {"predictions": labels}}},
    }
    (tmp_path / "scores.md").write_text(f"before\n{page.BEGIN}\n{pages.END}\nafter\n")
    found = {"preset": scores.PRESET, "cells": cells, "labels": {"sst2": labels, "trec6": labels}}
    scores.write(found, tmp_path / "scores.json", tmp_path / "scores.md")
    lines = (tmp_path / "scores.md").read_text().splitlines()
    (row,) = [line for line in lines if line.startswith("| SST-2")]
    assert row.startswith(
        "| SST-2, sentences | 100 | 50.0 (40.4 to 59.6) |  |  | **99.5 ± 6.4** | 2 | +49.5 ("
    )
    assert any(line.startswith("| TREC-6 | 100 |  | 100.0 (") for line in lines)
    assert (lines[0], lines[-1]) == ("before", "after")
    assert json.loads((tmp_path / "scores.json").read_text()) == found
