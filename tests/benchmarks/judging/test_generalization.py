"""The program on a few sentences and an untrained model: what it finds, scores, keeps and writes."""

import json

import pytest

from benchmarks import generalization
from benchmarks.comparison.tasks import named_task
from benchmarks.judging import kinds_page as page
from convnlp.models import Seq2SeqBackbone, Seq2SeqLM, Seq2SeqLMPreprocessor, Tokenizer
from convnlp.tasks.text_to_text import greedy_predictions
from tests import corpus
from tests.run_program import run_program

TASK = named_task("cogs_variable_free")


@pytest.fixture
def cell(tmp_path):
    """The directory of a finished fine-tuning with its preset, beside one of another task and a trial."""
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), 1, 2, 8, 16)
    lm = Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 6, 4))
    for name, source in (("finetune-a", TASK.source), ("finetune-b", "jsonl:other"), ("pretrain-c", "x")):
        directory = tmp_path / "runs" / "cells" / name
        lm.save_to_preset(str(directory / "preset"))
        settings = {"mixer": "dynamic_conv", "start": "scratch", "seed": 1, "source": source}
        (directory / "settings.json").write_text(json.dumps(settings))
        (directory / "result.json").write_text("{}")
    return tmp_path / "runs" / "cells" / "finetune-a"


def write_sentences(folder, written):
    """Writes three sentences of two kinds; the model is right if it writes `written` for the first."""
    rows = [
        {"inputs": "The old river.", "targets": written, "category": "old"},
        {"inputs": "The old river.", "targets": f"{written} not", "category": "new"},
        {"inputs": "The river.", "targets": "no", "category": "old"},
    ]
    (folder / "seq2seq").mkdir(parents=True, exist_ok=True)
    corpus.write_jsonl(folder / "seq2seq" / "cogs_variable_free.gen.jsonl.gz", rows)


def test_finished_models_of_the_task_are_found(cell, tmp_path):
    label = "dynamic_conv, scratch, seed 1"
    assert generalization.fine_tuned(tmp_path / "runs") == {label: str(cell / "preset")}
    (cell / "result.json").unlink()
    with pytest.raises(ValueError, match=r"`--workdir` must hold models that .* Received: .*runs"):
        generalization.fine_tuned(tmp_path / "runs")


def test_the_first_sentences_of_each_kind_are_read(tmp_path):
    write_sentences(tmp_path, "x")
    source = TASK.source.replace("{data_dir}", str(tmp_path))
    expected = {"old": [("The old river.", "x")], "new": [("The old river.", "x not")]}
    assert generalization.by_kind(source, 1) == expected
    assert len(generalization.by_kind(source, 2)["old"]) == 2


def test_table():
    models = {
        "a": {"easy": [1, 2], "hard": [0, 100], "none": [0, 4], "little": [1, 100]},
        "b": {"easy": [0, 2], "hard": [90, 100], "none": [0, 4], "little": [0, 100]},
    }
    assert page.table(models).splitlines() == [
        "| exact match | a | b |",
        "| --- | --- | --- |",
        "| `hard` | 0.0 | 90.0 |",
        "| `easy` | 50.0 | 0.0 |",
        "| each of the other 2, at most | 1.0 | 0.0 |",
        "| **mean of all kinds** | **12.8** | **22.5** |",
    ]


@pytest.mark.multiprocess
def test_program(cell, tmp_path):
    longer = Seq2SeqLMPreprocessor.from_preset(str(cell / "preset"), **generalization.LENGTHS)
    (written,) = greedy_predictions(
        Seq2SeqLM.from_preset(str(cell / "preset"), preprocessor=longer), ["The old river."]
    )
    write_sentences(tmp_path / "data", written)
    docs = tmp_path / "docs"
    docs.mkdir()
    args = f"--data_dir={tmp_path}/data", f"--workdir={tmp_path}/runs", f"--docs_dir={docs}"
    done = run_program("benchmarks.generalization", *args)
    assert done.returncode == 1
    assert "error: `--docs_dir` must lead to a page" in done.stderr
    (docs / "paper.md").write_text(f"Before\n{page.BEGIN}\n<!-- end of generated part -->\nAfter\n")
    done = run_program("benchmarks.generalization", *args)
    assert done.returncode == 0, done.stderr
    known = json.loads((docs / "cogs.json").read_text())["models"]
    (found,) = known.values()
    assert found["counts"] == {"old": [1, 2], "new": [0, 1]}
    assert "| **mean of all kinds** | **25.0** |" in (docs / "paper.md").read_text()

    found["counts"]["new"] = [1, 1]  # what is known is not asked again
    (docs / "cogs.json").write_text(json.dumps({"machine": {}, "models": known}))
    again = run_program("benchmarks.generalization", *args)
    assert again.returncode == 0, again.stderr
    assert "| **mean of all kinds** | **75.0** |" in (docs / "paper.md").read_text()
