"""What a run reads, by content."""

import dataclasses
import shutil
from typing import ClassVar

import pytest

from convnlp.configs import common
from convnlp.data import pydocs, rules
from convnlp.runs import inputs
from convnlp.tasks import TASKS, Regression, option
from convnlp.training import storage
from tests import corpus


@pytest.fixture
def folder(tmp_path):
    for name in ("a", "b"):
        corpus.write_jsonl(tmp_path / f"{name}.train.jsonl", corpus.reviews(4, seed=ord(name)))
    corpus.write_jsonl(tmp_path / "a.test.jsonl", corpus.reviews(4))
    (tmp_path / "spm.model").write_bytes(corpus.tiny_proto())
    (tmp_path / "preset" / "assets").mkdir(parents=True)
    for name in ("config.json", "README.md", "experiment.json", "assets/vocabulary.spm"):
        (tmp_path / "preset" / name).write_text(name)
    return tmp_path


def config_of(folder, **data):
    config = common.get_config()
    config.data.update(
        {"source": f"jsonl:{folder}/*.{{split}}.jsonl", "validation_split": "train[:1]", **data}
    )
    config.tokenizer = f"{folder}/spm.model"
    return config


def test_every_file_of_a_run_has_its_size_and_sum(folder):
    config = config_of(folder, test_source=f"jsonl:{folder}/a.{{split}}.jsonl")
    config.init_from = f"{folder}/preset"
    found = inputs.fingerprints(config)
    assert {field: list(files) for field, files in found.items()} == {
        "data.source": ["jsonl:a.train.jsonl", "jsonl:b.train.jsonl"],
        "data.test_source": ["jsonl:a.test.jsonl"],
        "tokenizer": ["spm.model"],
        "init_from": ["vocabulary.spm", "config.json"],
    }
    assert found["tokenizer"]["spm.model"] == storage.fingerprint(folder / "spm.model")
    assert len({facts["sha256"] for facts in found["data.source"].values()}) == 2


def test_teachers_are_read_too(folder):
    config = config_of(folder)
    config.task.options.teachers = (f"{folder}/preset", f"{folder}/other")
    shutil.copytree(folder / "preset", folder / "other")
    before = inputs.fingerprints(config)["task.options.teachers"]
    assert list(before) == [f"{place}/{name}" for place in "12" for name in ("vocabulary.spm", "config.json")]
    (folder / "other" / "config.json").write_text("changed")
    after = inputs.fingerprints(config)["task.options.teachers"]
    assert [name for name in before if after[name] != before[name]] == ["2/config.json"]
    config.task.options.teachers = ()
    assert "task.options.teachers" not in inputs.fingerprints(config)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reranked(Regression):
    """Of which only the options are asked; it has no `teachers`."""

    name: ClassVar[str] = "reranked"
    reranker: str = option("", rules.STRING, preset=True)
    judge: str = option(rule=rules.STRING, preset=True)  # which has to be set


def test_an_option_of_your_own_that_names_a_preset_is_read_too(folder, monkeypatch):
    monkeypatch.setitem(TASKS, "reranked", Reranked)
    config = config_of(folder)
    config.task.kind = "reranked"
    config.task.options.teachers = ("nobody",)
    inputs.locate_presets(config)  # nor the judge, which the task misses later
    assert not [name for name in inputs.fingerprints(config) if name.startswith("task.options.")]
    config.task.options.reranker = f"{folder}/preset"
    assert list(inputs.fingerprints(config)["task.options.reranker"]) == ["1/vocabulary.spm", "1/config.json"]
    config.task.options.reranker = f"{folder}/none"
    with pytest.raises(ValueError, match="none: no such directory"):
        inputs.locate_presets(config)


def test_a_kind_that_nobody_knows_names_no_preset(folder):
    config = config_of(folder)
    config.task.kind = "unknown"
    inputs.locate_presets(config)


def test_the_directory_does_not_matter_and_each_byte_does(folder):
    before = inputs.fingerprints(config_of(folder))
    folder = folder.rename(folder.parent / "moved")
    assert inputs.fingerprints(config_of(folder)) == before
    path = folder / "b.train.jsonl"
    path.write_bytes(path.read_bytes().replace(b"A", b"a", 1))
    after = inputs.fingerprints(config_of(folder))
    assert after["data.source"]["jsonl:a.train.jsonl"] == before["data.source"]["jsonl:a.train.jsonl"]
    assert after["data.source"]["jsonl:b.train.jsonl"] != before["data.source"]["jsonl:b.train.jsonl"]
    assert after["tokenizer"] == before["tokenizer"]


def test_what_cannot_be_read_is_left_to_those_who_read_it(folder):
    config = config_of(folder, source="jsonl:none.jsonl", test_source="nonsense:x")
    config.tokenizer = "none.model"
    assert inputs.fingerprints(config) == {}
    assert inputs.fingerprints(config_of(folder, source="tfds:no_such_set")).keys() == {"tokenizer"}


def test_pydocs_stand_for_the_python_that_is_installed(folder, monkeypatch):
    monkeypatch.setattr(
        pydocs, "path", lambda selection: f"{folder}/a.test.jsonl" if selection == "8" else ""
    )
    found = inputs.fingerprints(config_of(folder, source="pydocs:8"))
    assert list(found["data.source"]) == ["pydocs:a.test.jsonl"]


def test_many_files_are_one_entry(folder, monkeypatch):
    monkeypatch.setattr(inputs, "MAX_FILES", 1)
    before = inputs.fingerprints(config_of(folder))["data.source"]
    (folder / "a.train.jsonl").write_text('{"text": "changed"}\n')
    after = inputs.fingerprints(config_of(folder))["data.source"]
    assert list(before) == list(after) == ["jsonl:2 files"]
    assert before != after


def test_large_files_are_read_in_part(folder, monkeypatch):
    path = folder / "a.train.jsonl"
    path.write_bytes(b"x" * 10_000)
    monkeypatch.setattr(inputs, "FULL_BYTES", 1000)
    monkeypatch.setattr(inputs, "SAMPLE_BYTES", 10)
    read = []
    gfile = storage.gfile.GFile

    def counting(*arguments):
        file = gfile(*arguments)
        file_read = file.read
        file.read = lambda count: read.append(count) or file_read(count)
        return file

    monkeypatch.setattr(storage.gfile, "GFile", counting)
    config = config_of(folder, source=f"jsonl:{path}")
    config.tokenizer = ""
    before = inputs.fingerprints(config)["data.source"]["jsonl:a.train.jsonl"]
    assert set(before) == {"bytes", "sha256_of_samples"}
    assert sum(read) == inputs.NUM_SAMPLES * 10
    for changed in (b"x" * 10_001, b"y" + b"x" * 9_999, b"x" * 9_999 + b"y"):
        path.write_bytes(changed)
        assert inputs.fingerprints(config)["data.source"]["jsonl:a.train.jsonl"] != before
