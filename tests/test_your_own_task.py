"""The code of docs/your_own_task.md, saved, tested, trained, scored and exported as the page says."""

import json
import re
import sys

import pytest

from convnlp import testing
from convnlp.tasks import TASKS
from tests import corpus
from tests.documentation import ROOT
from tests.run_program import run_program

PAGE = (ROOT / "docs" / "your_own_task.md").read_text(encoding="utf-8")
TASK, SUITE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
MODULES = "--modules=my_tasks"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Holds my_tasks.py and spm.model, and is on the path of this process and of its children."""
    (tmp_path / "my_tasks.py").write_text(TASK, encoding="utf-8")
    (tmp_path / "spm.model").write_bytes(corpus.tiny_proto())
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield tmp_path
    sys.modules.pop("my_tasks", None)
    TASKS.pop("smooth_classification", None)


def test_the_suite_of_the_page_passes(folder, monkeypatch):
    monkeypatch.chdir(folder)
    names = {}
    exec(compile(SUITE, "your_own_task.md", "exec"), names)
    name, checks = names["test_smooth_classification"].pytestmark[0].args
    assert name == "check"
    assert {check.function for check in checks} == set(testing.TASK_SUITE)
    for check in checks:
        check()


@pytest.mark.multiprocess
def test_programs_train_score_and_export_it(folder):
    rows = [{"text": row["text"], "label": ("bad", "good")[row["label"]]} for row in corpus.reviews(64)]
    corpus.write_jsonl(folder / "reviews.jsonl", rows)
    commands = [
        [
            "convnlp.finetune",
            "--config=configs/finetune_classification.py",
            "--config.model.size=tiny",
            "--config.model.kernel_size=(3,)",
            "--config.task.kind=smooth_classification",
            f"--config.tokenizer={folder}/spm.model",
            f"--config.data.source=jsonl:{folder}/reviews.jsonl",
            "--config.data.input_length=24",
            "--config.task.num_epochs=1",
            "--config.train.batch_size=8",
            "--config.train.steps_per_call=2",
            f"--workdir={folder}/run",
        ],
        [
            "convnlp.evaluate",
            f"--preset={folder}/run/preset",
            f"--source=jsonl:{folder}/reviews.jsonl",
            f"--output={folder}/scores.json",
        ],
        ["export.saved_model", f"--preset={folder}/run/preset", f"--output={folder}/model", "--nocheck"],
    ]
    for program, *flags in commands:
        done = run_program(program, MODULES, *flags)
        assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads((folder / "scores.json").read_text())["scores"]["num_examples"] == 64
    assert (folder / "model" / "1" / "saved_model.pb").exists()
