import dataclasses

import pytest

from benchmarks.comparison import files
from benchmarks.comparison.cells import KINDS
from benchmarks.comparison.plan import Plan, Pretraining
from benchmarks.comparison.tasks import Data
from convnlp.data import SourceError

DATA = Data("jsonl:{here}/a.{split}.jsonl", "train", "valid", "jsonl:{here}/b.jsonl", "train", (), length=8)
PRETRAINING = Pretraining("jsonl:{here}/raw.jsonl")


def plan(here, **changes):
    return Plan(
        ("fourier",), (0,), DATA, "spm.model", pretraining=PRETRAINING, folders={"here": here}, **changes
    )


def test_each_file_is_missed(tmp_path):
    for name in ("a.train.jsonl", "a.valid.jsonl", "b.jsonl", "raw.jsonl"):
        with pytest.raises(SourceError):
            files.check(plan(tmp_path), KINDS, tmp_path / "work")
        (tmp_path / name).touch()
    files.check(plan(tmp_path), KINDS, tmp_path / "work")
    other = dataclasses.replace(DATA, source="jsonl:{here}/trials.jsonl", validation_split="train")
    with pytest.raises(SourceError, match=r"trials\.jsonl"):
        files.check(plan(tmp_path, trial_data=other), KINDS, tmp_path / "work")


def test_no_data_are_needed_for_what_is_measured_or_done(tmp_path):
    files.check(plan(tmp_path), ("measure",), tmp_path)
    for cell in plan(tmp_path).cells("fourier"):
        cell.directory(tmp_path).mkdir(parents=True)
        (cell.directory(tmp_path) / "result.json").write_text("{}")
    files.check(plan(tmp_path), KINDS, tmp_path)
