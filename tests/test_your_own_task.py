"""The code of docs/your_own_task.md, saved, tested, trained, scored and exported as the page says."""

import importlib
import json

import numpy as np
import pytest

from convnlp import tasks, testing
from convnlp.data import Label, Source
from convnlp.export.edge_model import EdgeModel
from convnlp.export.lite import report, tflite_files
from convnlp.models import Seq2SeqBackbone, Tokenizer
from convnlp.tasks import TASKS
from tests import corpus, your_own

TASK, REGRESSION, SUITE = your_own.python_blocks("your_own_task.md")
MODULES = "--modules=my_regression"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Holds the modules and spm.model."""
    files = {"my_tasks": TASK, "my_regression": REGRESSION}
    (tmp_path / "spm.model").write_bytes(corpus.tiny_proto())
    with your_own.modules(tmp_path, monkeypatch, files, TASKS) as folder:
        yield folder


@pytest.mark.slow
def test_the_suite_of_the_page_passes(folder, monkeypatch):
    monkeypatch.chdir(folder)
    your_own.run_suite(SUITE, "test_smooth_classification", testing.TASK_SUITE)


def test_a_subclass_of_ours_keeps_its_class_and_pooling_with_n_grams(folder):
    cls = importlib.import_module("my_tasks").SmoothClassification
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), 1, 2, 8, 16, num_decoder_layers=0)
    label = Label(names=("bad", "good"))
    task = cls(tokenizer=tokenizer, label=label, sequence_length=12, pooling="mean", ngram_buckets=4096)
    corpus.write_jsonl(folder / "a.jsonl", corpus.reviews(8))
    found = task.read(Source(f"jsonl:{folder}/a.jsonl"))
    _, model = task.trained(task.model(backbone), found, found)
    assert (model.pooling, model.ngram_buckets) == ("mean", 4096)
    assert tasks.task_of(model) is cls


@pytest.fixture
def stars():
    """Records with 1.5 stars for a bad film, 4.5 for a good one."""
    return [{"text": row["text"], "stars": 1.5 + 3 * row["label"]} for row in corpus.reviews(64)]


def test_the_suite_passes_for_a_task_from_nothing(folder, stars):
    importlib.import_module("my_regression")
    checks = testing.task_checks(
        "my_regression",
        Tokenizer(corpus.tiny_proto()),
        stars[:7],
        {"task.label_field": "stars"},
        tasks.Fields(label="stars"),
    )
    for check in checks:
        check()


@pytest.mark.slow
@pytest.mark.multiprocess
def test_a_task_from_nothing_is_trained_scored_exported_and_verified(folder, stars):
    corpus.write_jsonl(folder / "stars.jsonl", stars)
    your_own.run_programs(
        [
            "convnlp.finetune",
            MODULES,
            "--config=configs/finetune_classification.py:dynamic_conv",
            *your_own.SMALL,
            "--config.task.kind=my_regression",
            "--config.task.label_field=stars",
            f"--config.tokenizer={folder}/spm.model",
            f"--config.data.source=jsonl:{folder}/stars.jsonl",
            "--config.data.input_length=24",
            "--config.task.num_epochs=6",
            "--config.train.batch_size=8",
            "--config.train.steps_per_call=6",
            "--config.optimizer.learning_rate=0.02",
            f"--workdir={folder}/run",
        ],
        [
            "convnlp.evaluate",
            MODULES,
            f"--preset={folder}/run/preset",
            f"--source=jsonl:{folder}/stars.jsonl",
            "--label_field=stars",
            "--metrics=pearson",
            f"--output={folder}/scores.json",
        ],
        ["export.saved_model", MODULES, f"--preset={folder}/run/preset", f"--output={folder}/model"],
    )
    scores = json.loads((folder / "scores.json").read_text())["scores"]
    assert scores["num_examples"] == 64
    assert scores["pearson"] > 0.6  # a tiny model, with dropout
    assert (folder / "model" / "1" / "saved_model.pb").exists()
    card = (folder / "run" / "preset" / "README.md").read_text()
    assert "pipeline_tag: text-classification\n" in card
    assert "from my_regression import Regressor\n" in card

    importlib.import_module("my_regression")
    preset = str(folder / "run" / "preset")
    facts = tflite_files.export(preset, str(folder / "stars.tflite"), "fp32")
    assert facts["largest_error"] < 1e-4  # as is asked of every export that rounds nothing
    answers = EdgeModel(folder / "stars.tflite").predict([row["text"] for row in stars[:4]])
    source, fields = Source(f"jsonl:{folder}/stars.jsonl"), tasks.Fields(label="stars")
    count, (saved, lite) = report.rows(preset, tasks.load(preset), source, fields, ["fp32"], None, [8])
    assert count == 64
    for row in (saved, lite):
        assert row["largest_error"] < 1e-4
        assert row["pearson"] == pytest.approx(scores["pearson"], abs=1e-4)
    rows = tasks.load(preset).preprocessor([row["text"] for row in stars[:4]], y=None)
    expected = np.asarray(tasks.load(preset)(rows, training=False))
    np.testing.assert_allclose([answer["score"] for answer in answers], expected[:, 0], atol=1e-4)
