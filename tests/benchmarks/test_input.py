import dataclasses

import pytest

from benchmarks import input as input_benchmark
from benchmarks.input import Settings
from convnlp.models import Tokenizer
from tests import corpus

STAGES = ["read", "tokenize", "pack", "batch", "corrupt"]


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "spm.model").write_bytes(corpus.tiny_proto())
    source = corpus.write_jsonl(tmp_path / "docs.jsonl", [{"text": text} for text in corpus.documents(60)])
    return Settings(
        source=f"jsonl:{source}",
        num_documents=50,
        tokenizer=str(tmp_path / "spm.model"),
        input_length=16,
        batch_size=2,
        repeats=1,
        training_rate=100.0,
        import_repeats=0,
    )


def test_a_row_a_stage_and_the_share(settings):
    *stages, share = input_benchmark.rows(settings)
    assert [row.name for row in stages] == [f"pipeline up to {stage}" for stage in STAGES]
    assert len({row.detail["tokens"] for row in stages}) == 1
    assert all(row.ours > 0 and row.peer is None for row in stages)
    assert share.ours == 100
    assert share.ratio == pytest.approx(100 / stages[-1].ours)
    assert (share.better, share.goal) == ("limit", 0.02)


@pytest.mark.slow
def test_training_rate_of_a_small_model(settings):
    tiny = dataclasses.replace(settings, training_size="tiny")
    assert input_benchmark.training_rate_of(tiny, Tokenizer.from_file(settings.tokenizer)) > 0


@pytest.mark.multiprocess
def test_import_row():

    row = input_benchmark.import_row(1, first=("json", "string"), then="colorsys")
    assert row.name == "import colorsys"
    assert 0 < row.ours < 5
    assert (row.better, row.goal, len(row.detail["samples"])) == ("lower", None, 1)
