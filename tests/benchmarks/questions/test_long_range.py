"""The cells of long texts, in this process, on a few short reviews."""

import pytest

from benchmarks.comparison import cells, worker
from benchmarks.questions import byte_vocabulary, long_range, table
from tests import corpus

LENGTHS = (64, 128)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Reviews with a character of two bytes, and everything small."""
    small = {
        "LENGTHS": LENGTHS,
        "PRETRAIN_LENGTH": LENGTHS[0],
        "STEP_BYTES": 4 * LENGTHS[0],
        "PRETRAIN_BYTES": 10 * 4 * LENGTHS[0],
        "PRETRAIN_LEARNING_RATES": (1e-3,),
        "LEARNING_RATES": (1e-3,),
        "STEPS": dict.fromkeys(long_range.STEPS, 10),
        "SPLITS": {"split": "train[8:]", "validation_split": "train[:8]"},
    }
    for name, value in small.items():
        monkeypatch.setattr(long_range, name, value)
    (tmp_path / "classification").mkdir()
    for split, count in (("train", 40), ("test", 9)):
        rows = [{**row, "text": f"\u00e9 {row['text']}"} for row in corpus.reviews(count)]
        corpus.write_jsonl(tmp_path / "classification" / f"imdb.{split}.jsonl.gz", rows)
    byte_vocabulary.write(tmp_path / "bytes.spm")
    return {"data_dir": str(tmp_path), "workdir": str(tmp_path)}


@pytest.mark.slow
def test_reviews_are_read_byte_by_byte(folders, tmp_path):
    row, tests = long_range.DILATED, corpus.reviews(9)
    short, long = (plan for _, _, plan in table.plans(table.QUESTIONS["lra"], (10e6,), (1,), folders))
    worker.compute(long, tmp_path, row, kinds=table.COMPUTED)
    assert {cell.kind for cell in cells.missing(long.cells(row), tmp_path)} == {"measure"}
    for cell in long.cells(row)[-2:]:
        result = cell.result(tmp_path)
        expected = [min(len(f"\u00e9 {review['text']}".encode()) + 1, LENGTHS[1]) for review in tests]
        assert result["lengths"] == expected  # with the end
        assert result["steps"] == 10
        assert result["accuracy"] == pytest.approx(sum(result["hits"]) / 9)
    # One encoder serves both lengths.
    left = [cell.kind for cell in cells.missing(short.cells(row), tmp_path)]
    assert left == ["measure", "finetune", "finetune"]
