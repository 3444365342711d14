"""Tokens computed per token, counted by hand."""

import json

import pytest
import tensorflow as tf

from benchmarks import padding
from tests.run_program import run_program


def words(texts):
    """A tokenizer: a token per word."""
    return tf.strings.split(texts)


def test_counts():
    # 1, 9, 2 and 15 tokens with the end token, in 0, 15, 60 and 27 bytes.
    texts = [b"", b"a b c d e f g h", b"x" * 60, b"a b c d e f g h i j k l m n"]
    found = padding.counts(texts, words, padding.Settings(batch_size=2, length=20, group_size=1))
    total = 1 + 9 + 2 + 15
    assert found == {
        "as they come": (2 * 16 + 2 * 16) / total,
        "in groups": (8 + 16 + 8 + 16) / total,
        "sorted by bytes": (2 * 16 + 2 * 16) / total,  # 1 and 9, 15 and 2
        "sorted by tokens": (2 * 8 + 2 * 16) / total,
        "packed": 2 * 20 / total,  # 15 + 2 + 1 and 9
    }


def test_texts_are_cut():
    found = padding.counts([b"a " * 50, b"a"], words, padding.Settings(batch_size=2, length=12))
    assert found["as they come"] == 2 * 12 / (12 + 2)


@pytest.mark.multiprocess
def test_program(tmp_path):
    source = tmp_path / "texts.csv"
    source.write_text("text\n" + "".join(f"{'good film ' * (i * 5 % 13)}.\n" for i in range(80)))
    report = tmp_path / "report.json"
    done = run_program("benchmarks.padding", f"--source=csv:{source}", f"--json={report}")
    assert done.returncode == 0, done.stderr
    rows = {row["setting"]["form"]: row["ours"] for row in json.loads(report.read_text())["rows"]}
    assert rows["as they come"] > rows["sorted by tokens"] > rows["packed"] >= 1
