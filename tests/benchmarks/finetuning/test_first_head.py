"""Which texts are learned from, what each run changes, and the row."""

import csv
import gzip
import importlib.resources
import io

import numpy as np
import pytest

from benchmarks.finetuning import first_head


def example():
    packed = (importlib.resources.files("convnlp.example") / "train.csv.gz").read_bytes()
    return list(csv.DictReader(io.StringIO(gzip.decompress(packed).decode(), newline="")))


@pytest.mark.parametrize("num_classes", [3, 77])
def test_each_text_of_the_first_classes_is_learned_from_or_judges(num_classes, tmp_path):
    train, held_out, labels = first_head.divided(tmp_path, num_classes)
    parts = []
    for path in (train, held_out):
        with open(path, encoding="utf-8", newline="") as file:
            parts.append([(each["text"], each["label"]) for each in csv.DictReader(file)])
    found = [(each["text"], each["category"]) for each in example()]
    names = sorted({label for _, label in found})[:num_classes]
    assert sorted(parts[0] + parts[1]) == sorted(each for each in found if each[1] in names)
    assert [label for _, label in parts[1]] == labels
    assert {label for _, label in parts[0]} == set(names)
    assert 0.2 < len(labels) / len(parts[0] + parts[1]) < 0.3


def test_both_runs_of_a_row_learn_from_the_same_texts(tmp_path, monkeypatch, capsys):
    found = []
    monkeypatch.setattr(
        first_head, "run_once", lambda program, folder, fields, done: found.append((folder, fields))
    )
    monkeypatch.setattr(
        first_head,
        "right_of",
        lambda folder, source, labels: np.arange(len(labels)) % 2 == ("fitted" in folder.name),
    )
    arguments = {"workdir": str(tmp_path), "trials": ["4"], "seed": 4}
    monkeypatch.setattr(first_head.flags, "FLAGS", type("Flags", (), arguments))
    first_head.main([])
    (folder, fields), (other_folder, other_fields) = found
    assert folder != other_folder
    assert fields == {
        "config.seed": 4,
        "config.data.source": f"csv:{tmp_path}/10.train.csv",
        "config.task.options.fit_head_first": False,
    }
    assert other_fields == {**fields, "config.task.options.fit_head_first": True}
    assert capsys.readouterr().out.splitlines()[-1].startswith("| 10 | default | ")
    monkeypatch.setattr(first_head.flags.FLAGS, "trials", ["5"])
    with pytest.raises(ValueError, match=r"`--trials` must be numbers below 5\. Received: '5'"):
        first_head.main([])


def test_the_row_pairs_the_texts():
    right = np.arange(4) < 2, np.arange(4) < 3
    assert first_head.row(10, 3, right) == [10, 3, 4, "50.0", "75.0", "+25.0 ± 25.0"]


def test_answers_are_compared_by_name_and_kept(tmp_path, monkeypatch):
    (tmp_path / "preset").mkdir()
    (tmp_path / "preset" / "task.json").write_text('{"config": {"labels": ["a", "b"]}}')
    asked = []
    monkeypatch.setattr(first_head, "classes", lambda *arguments: asked.append(arguments) or [0, 1, 1])
    for _ in range(2):
        right = first_head.right_of(tmp_path, "csv:held_out.csv", ["a", "b", "a"])
        assert right.tolist() == [True, True, False]
    assert asked == [(tmp_path / "preset", "csv:held_out.csv")]
