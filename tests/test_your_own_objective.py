"""The code of docs/your_own_objective.md, saved, tested and trained as the page says."""

import json
import re
import sys

import pytest

from convnlp import testing
from convnlp.objectives import OBJECTIVES
from tests import corpus
from tests.documentation import ROOT
from tests.run_program import run_program

PAGE = (ROOT / "docs" / "your_own_objective.md").read_text(encoding="utf-8")
OBJECTIVE, SUITE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Holds my_objectives.py, and is on the path of this process and of its children."""
    (tmp_path / "my_objectives.py").write_text(OBJECTIVE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield tmp_path
    sys.modules.pop("my_objectives", None)
    OBJECTIVES.pop("word_repair", None)


def test_the_suite_of_the_page_passes(folder):
    names = {}
    exec(compile(SUITE, "your_own_objective.md", "exec"), names)
    name, checks = names["test_word_repair"].pytestmark[0].args
    assert name == "check"
    assert {check.function for check in checks} == set(testing.OBJECTIVE_SUITE)
    for check in checks:
        check()


@pytest.mark.multiprocess
def test_a_program_trains_it_beside_another(folder):
    (folder / "spm.model").write_bytes(corpus.tiny_proto())
    corpus.write_jsonl(folder / "texts.jsonl", [{"text": text} for text in corpus.documents(200)])
    done = run_program(
        "convnlp.pretrain",
        "--mixer_modules=my_objectives",
        "--config=configs/pretrain_mini.py:lightweight_conv",
        "--config.model.size=tiny",
        "--config.model.num_decoder_layers=0",
        "--config.model.kernel_size=(3,)",
        "--config.objective.names=('masked_lm', 'word_repair')",
        "--config.objective.options.word_repair.weight=0.5",
        f"--config.tokenizer={folder}/spm.model",
        f"--config.data.source=jsonl:{folder}/texts.jsonl",
        "--config.data.input_length=32",
        "--config.train.batch_size=4",
        "--config.train.num_steps=4",
        "--config.train.steps_per_call=2",
        "--config.train.eval_every=4",
        "--config.train.checkpoint_every=4",
        "--config.train.eval_batches=2",
        "--config.optimizer.warmup_steps=2",
        "--config.optimizer.decay_steps=2",
        f"--workdir={folder}/run",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    values = {key: value for row in rows for key, value in row.items()}
    expected = values["masked_lm"] + 0.5 * values["word_repair"]
    assert values["loss"] == pytest.approx(expected, rel=1e-5)
    assert values["valid/word_repair"] > 0
