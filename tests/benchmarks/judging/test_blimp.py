"""The program on two paradigms and an untrained model: what it reads, refuses, keeps and writes."""

import json
import shutil

import pytest

from benchmarks import blimp, pages
from benchmarks.judging import minimal_pairs
from benchmarks.judging import pairs_page as page
from convnlp.models import Seq2SeqBackbone, Tokenizer
from tests import corpus
from tests.run_program import run_program
from tests.small_classifier import small_classifier


def write_paradigm(directory, name, phenomenon, pairs):
    rows = [
        {
            "sentence_good": good,
            "sentence_bad": bad,
            "UID": name,
            "linguistics_term": phenomenon,
            "pairID": "0",
        }
        for good, bad in pairs
    ]
    (directory / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def data_dir(tmp_path):
    directory = tmp_path / "data"
    directory.mkdir()
    write_paradigm(directory, "order", "word_order", [("The old river", "The river old"), ("A b", "B a")])
    write_paradigm(directory, "same", "word_order", [("The valley", "The valley")] * 3)
    return directory


def test_read(data_dir):
    order, same = minimal_pairs.read(data_dir, most_pairs=2)
    assert order == minimal_pairs.Paradigm(
        "order", "word_order", (("The old river", "The river old"), ("A b", "B a"))
    )
    assert len(same.pairs) == 2


def test_bad_data(data_dir, tmp_path):
    with pytest.raises(ValueError, match=r"`--data_dir` must hold BLiMP's \*.jsonl files. Received: .*docs"):
        minimal_pairs.read(tmp_path / "docs", 10)
    (data_dir / "zero.jsonl").write_text('{"sentence_good": "A"}\n')
    with pytest.raises(ValueError, match=r"zero.jsonl, line 1: must be a JSON object with sentence_good"):
        minimal_pairs.read(data_dir, 10)
    write_paradigm(data_dir, "zero", "x", [])
    with pytest.raises(ValueError, match=r"zero.jsonl: must hold the pairs of one paradigm. Received: 0"):
        minimal_pairs.read(data_dir, 10)


def test_table():
    counts = {
        "ours": {"a": [3, 4], "b": [1, 2], "c": [0, 5]},
        "theirs": {"a": [4, 4], "b": [2, 2], "c": [5, 5]},
    }
    lines = page.table(counts, {"a": "x_y", "b": "x_y", "c": "z"}).splitlines()
    assert lines[2:4] == ["| x y | 2 | 62.5 | 100.0 |", "| z | 1 | 0.0 | 100.0 |"]
    error = (0.75 * 0.25 / 4 + 0.25 / 2) ** 0.5 / 3
    assert lines[4] == f"| **mean of all paradigms** | 3 | **41.7** ± {196 * error:.1f} | **100.0** ± 0.0 |"


@pytest.mark.slow
@pytest.mark.multiprocess
def test_what_is_wrong_is_said_before_anything_is_asked(data_dir, tmp_path):
    args = (f"--data_dir={data_dir}", f"--docs_dir={tmp_path}")
    done = run_program("benchmarks.blimp", *args)
    assert done.returncode == 1
    assert "error: `--docs_dir` must lead to a page" in done.stderr
    (tmp_path / "paper.md").write_text(f"{page.BEGIN}\n{pages.END}\n")
    small = {"num_heads": 2, "hidden_dim": 16, "intermediate_dim": 16}
    no_encoder = {"num_layers": 0, "num_decoder_layers": 1}
    pooled = {"num_layers": 1, "num_decoder_layers": 0, "pool_size": 2}
    for options, message in (
        (no_encoder, "masked_lm trains an encoder"),
        (pooled, "needs an encoder output for every token"),
    ):
        Seq2SeqBackbone(200, **small, **options).save_to_preset(str(tmp_path / "preset"))
        Tokenizer(corpus.tiny_proto()).save_to_preset(str(tmp_path / "preset"))
        done = run_program("benchmarks.blimp", *args, f"--presets=dynamic_conv_mini_en,{tmp_path}/preset")
        assert done.returncode == 1
        assert message in done.stderr.splitlines()[-1]
        assert done.stdout == ""
        shutil.rmtree(tmp_path / "preset")


def test_labels():
    with pytest.raises(ValueError, match="`--presets` must have different labels"):
        blimp.located(["a=dynamic_conv_mini_en", "a=y"])


@pytest.mark.multiprocess
def test_program(data_dir, tmp_path):
    preset, docs = tmp_path / "preset", tmp_path / "docs"
    small_classifier(["dynamic_conv"], 16, ["a", "b"]).save_to_preset(str(preset))
    docs.mkdir()
    (docs / "paper.md").write_text(f"Before\n{page.BEGIN}\n<!-- end of generated part -->\nAfter\n")
    published = tmp_path / "published.jsonl"
    rows = [
        {"UID": name, "ngram": 0.5, "lstm": 0.6, "txl": 0.7, "gpt2": share}
        for name, share in (("order", 0.8), ("same", 0.9))
    ]
    published.write_text("".join(json.dumps(row) + "\n" for row in rows))
    args = (f"--data_dir={data_dir}", f"--presets=small={preset}", f"--docs_dir={docs}")
    done = run_program("benchmarks.blimp", *args, f"--published={published}")
    assert done.returncode == 0, done.stderr
    known = json.loads((docs / "blimp.json").read_text())["models"]
    assert known["small"]["counts"]["same"] == [0, 3]  # equally likely is not right
    assert known["small"]["counts"]["order"][1] == 2
    text = (docs / "paper.md").read_text()
    assert text.startswith("Before\n")
    assert text.endswith("After\n")
    columns = " | ".join(["small", *(f"{name} (published)" for name in ("ngram", "lstm", "txl", "gpt2"))])
    assert f"| {columns} |" in text
    assert "**85.0** ± " in text

    known["small"]["counts"]["same"] = [3, 3]  # what is known is not asked again
    (docs / "blimp.json").write_text(json.dumps({"machine": {}, "models": known}))
    again = run_program("benchmarks.blimp", *args)
    assert again.returncode == 0, again.stderr
    known_again = json.loads((docs / "blimp.json").read_text())["models"]
    assert known_again == known
    assert "| gpt2 (published) |" in (docs / "paper.md").read_text()
