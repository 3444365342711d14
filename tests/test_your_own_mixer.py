"""The code of docs/your_own_mixer.md, saved, tested, trained and loaded as the page says."""

import importlib
import json

import pytest

from convnlp import testing
from convnlp.layers import MIXERS
from convnlp.models import TextClassifier
from convnlp.testing import contract, extremes
from tests import corpus, your_own

MIXER, SUITE, USE = your_own.python_blocks("your_own_mixer.md")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    with your_own.modules(tmp_path, monkeypatch, {"my_mixers": MIXER}, MIXERS) as folder:
        yield folder


def test_the_mixer_has_some_thirty_lines():
    assert 25 <= len([line for line in MIXER.splitlines() if line.strip()]) <= 35


def test_the_suites_of_the_page_pass(folder):
    unclaimed = {function for function in testing.SUITE if function.__module__ == "convnlp.testing.prefix"}
    unclaimed |= {
        contract.pads_are_zeros_to_the_tokens,
        extremes.nothing_behind_a_prefix_is_seen_however_large,
        extremes.nothing_before_is_seen_from_right_to_left_however_large,
    }
    your_own.run_suite(SUITE, "test_token_shift", set(testing.SUITE) - unclaimed)


def test_the_model_of_the_page_is_built(folder):
    exec(compile(USE, "your_own_mixer.md", "exec"), {})


@pytest.mark.multiprocess
def test_a_program_trains_it_and_its_preset_is_loaded(folder):
    (folder / "spm.model").write_bytes(corpus.tiny_proto())
    corpus.write_jsonl(folder / "reviews.jsonl", corpus.reviews(64))
    your_own.run_programs(
        [
            "convnlp.finetune",
            "--modules=my_mixers",
            "--config=configs/finetune_classification.py:token_shift",
            *your_own.SMALL,
            f"--config.tokenizer={folder}/spm.model",
            f"--config.data.source=jsonl:{folder}/reviews.jsonl",
            "--config.data.input_length=24",
            "--config.task.num_epochs=1",
            "--config.train.batch_size=8",
            "--config.train.steps_per_call=2",
            f"--workdir={folder}/run",
        ]
    )
    assert json.loads((folder / "run" / "results.json").read_text())["validation"]["num_examples"] > 0
    module = importlib.import_module("my_mixers")
    classifier = TextClassifier.from_preset(str(folder / "run" / "preset"))
    assert isinstance(classifier.backbone.encoder.layers[0].mixer, module.TokenShift)
