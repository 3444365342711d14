"""The code of docs/your_own_mixer.md, saved, tested, trained and loaded as the page says."""

import importlib
import json
import re
import sys

import pytest

from convnlp import testing
from convnlp.models import TextClassifier
from convnlp.testing import contract, extremes
from tests import corpus
from tests.documentation import ROOT
from tests.run_program import run_program

PAGE = (ROOT / "docs" / "your_own_mixer.md").read_text(encoding="utf-8")
MIXER, SUITE, USE = re.findall(r"```python\n(.*?)```", PAGE, re.S)


@pytest.fixture
def folder(tmp_path, monkeypatch, own_mixers):
    """Holds my_mixers.py, and is on the path of this process and of its children."""
    (tmp_path / "my_mixers.py").write_text(MIXER, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield tmp_path
    sys.modules.pop("my_mixers", None)


def run(code):
    names = {}
    exec(compile(code, "your_own_mixer.md", "exec"), names)
    return names


def test_the_mixer_has_some_thirty_lines():
    assert 25 <= len([line for line in MIXER.splitlines() if line.strip()]) <= 35


def test_the_suites_of_the_page_pass(folder):
    mark = run(SUITE)["test_token_shift"].pytestmark[0]
    (name, checks) = mark.args
    assert name == "check"
    unclaimed = {function for function in testing.SUITE if function.__module__ == "convnlp.testing.prefix"}
    unclaimed |= {
        contract.pads_are_zeros_to_the_tokens,
        extremes.nothing_behind_a_prefix_is_seen_however_large,
    }
    assert {check.function for check in checks} == set(testing.SUITE) - unclaimed
    for check in checks:
        check()


def test_the_model_of_the_page_is_built(folder):
    run(USE)


@pytest.mark.multiprocess
def test_a_program_trains_it_and_its_preset_is_loaded(folder):
    (folder / "spm.model").write_bytes(corpus.tiny_proto())
    corpus.write_jsonl(folder / "reviews.jsonl", corpus.reviews(64))
    done = run_program(
        "convnlp.finetune",
        "--modules=my_mixers",
        "--config=configs/finetune_classification.py",
        "--config.model.size=tiny",
        "--config.model.mixer=token_shift",
        "--config.model.kernel_size=(3,)",
        f"--config.tokenizer={folder}/spm.model",
        f"--config.data.source=jsonl:{folder}/reviews.jsonl",
        "--config.data.input_length=24",
        "--config.task.num_epochs=1",
        "--config.train.batch_size=8",
        "--config.train.steps_per_call=2",
        f"--workdir={folder}/run",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads((folder / "run" / "results.json").read_text())["validation"]["num_examples"] > 0
    module = importlib.import_module("my_mixers")
    classifier = TextClassifier.from_preset(str(folder / "run" / "preset"))
    assert isinstance(classifier.backbone.encoder.layers[0].mixer, module.TokenShift)
