import dataclasses

import pytest

from benchmarks.comparison import files
from benchmarks.comparison.cells import KINDS, preset_of
from benchmarks.comparison.plan import Plan, Pretraining
from benchmarks.comparison.tasks import Data
from convnlp.data import SourceError

DATA = Data("jsonl:{here}/a.{split}.jsonl", "train", "valid", "jsonl:{here}/b.jsonl", "train", (), length=8)
PRETRAINING = Pretraining("jsonl:{here}/raw.jsonl")
RATES = (1e-3, 2e-3)  # to choose from, by trials


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
        files.check(plan(tmp_path, trial_data=other, learning_rates=RATES), KINDS, tmp_path / "work")


def finish(plan, workdir, kinds):
    """Writes results as if the cells of these kinds had been computed."""
    for cell in plan.cells("fourier"):
        if cell.kind in kinds:
            cell.directory(workdir).mkdir(parents=True)
            (cell.directory(workdir) / "result.json").write_text("{}")


def test_a_kind_needs_only_its_own_data(tmp_path):
    asked = plan(tmp_path, learning_rates=RATES)
    needed = {"pretrain": ["raw"], "finetune_trial": ["a.train", "a.valid"], "finetune": ["b"]}
    for kind, names in needed.items():
        with pytest.raises(SourceError):
            files.check(asked, (kind,), tmp_path)
        for name in names:
            (tmp_path / f"{name}.jsonl").touch()
        files.check(asked, (kind,), tmp_path)


def test_raw_text_is_only_needed_for_a_preset_that_is_missing(tmp_path):
    for name in ("a.train", "a.valid", "b"):
        (tmp_path / f"{name}.jsonl").touch()
    finish(plan(tmp_path), tmp_path, ("measure", "pretrain"))
    with pytest.raises(SourceError, match=r"raw\.jsonl"):
        files.check(plan(tmp_path), KINDS, tmp_path)
    (pretrain,) = (cell for cell in plan(tmp_path).cells("fourier") if cell.kind == "pretrain")
    preset_of(pretrain.name, tmp_path).mkdir()
    files.check(plan(tmp_path), KINDS, tmp_path)


def test_no_data_are_needed_for_what_is_measured_or_done(tmp_path):
    files.check(plan(tmp_path), ("measure",), tmp_path)
    finish(plan(tmp_path), tmp_path, KINDS)
    files.check(plan(tmp_path), KINDS, tmp_path)
