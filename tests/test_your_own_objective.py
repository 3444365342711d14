"""The code of docs/your_own_objective.md, saved, tested and trained as the page says."""

import json

import pytest

from convnlp import testing
from convnlp.objectives import OBJECTIVES
from tests import corpus, your_own

OBJECTIVE, SUITE = your_own.python_blocks("your_own_objective.md")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    with your_own.modules(tmp_path, monkeypatch, {"my_objectives": OBJECTIVE}, OBJECTIVES) as folder:
        yield folder


@pytest.mark.slow
def test_the_suite_of_the_page_passes(folder):
    your_own.run_suite(SUITE, "test_word_repair", testing.OBJECTIVE_SUITE)


@pytest.mark.slow
@pytest.mark.multiprocess
def test_a_program_trains_it_beside_another(folder):
    (folder / "spm.model").write_bytes(corpus.tiny_proto())
    corpus.write_jsonl(folder / "texts.jsonl", [{"text": text} for text in corpus.documents(200)])
    your_own.run_programs(
        [
            "convnlp.pretrain",
            "--mixer_modules=my_objectives",  # the older name of --modules
            "--config=configs/pretrain_mini.py:lightweight_conv",
            *your_own.SMALL,
            "--config.model.num_decoder_layers=0",
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
        ]
    )
    rows = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    values = {key: value for row in rows for key, value in row.items()}
    expected = values["masked_lm"] + 0.5 * values["word_repair"]
    assert values["loss"] == pytest.approx(expected, rel=1e-5)
    assert values["valid/word_repair"] > 0
