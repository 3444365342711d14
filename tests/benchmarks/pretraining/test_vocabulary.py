"""What a vocabulary does not know, counted on texts whose pieces are known."""

import json

import pytest

from benchmarks.pretraining import vocabulary
from convnlp.data import Source
from convnlp.models import Tokenizer
from tests import corpus
from tests.run_program import run_program

ROWS = [{"text": "the river ©© finds"}, {"text": "the ©river"}, {"text": ""}, {"text": "a quiet garden ☃"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    (folder / "spm.model").write_bytes(corpus.tiny_proto())
    Tokenizer(corpus.tiny_proto()).save_to_preset(str(folder / "preset"))
    corpus.write_jsonl(folder / "a.jsonl.gz", ROWS)
    corpus.write_jsonl(folder / "b.jsonl", [{"body": "the river"}])
    return folder


def test_counts(folder):
    model = vocabulary.load(str(folder / "spm.model"))
    counts = vocabulary.count(model, Source(f"jsonl:{folder}/a.jsonl.gz"))
    pieces = [piece for row in ROWS for piece in model.encode(row["text"])]
    assert (counts.texts, counts.words, counts.unknown_words) == (4, 10, 3)
    assert (counts.pieces, counts.unknown_pieces) == (len(pieces), pieces.count(model.unk_id()))
    assert counts.unknown_pieces == 3
    row = counts.row("mine")
    assert row["set"] == "mine"
    assert row["pieces per word"] == pytest.approx(len(pieces) / 10, abs=1e-3)
    assert row["unknown pieces"] == pytest.approx(3 / len(pieces), abs=1e-6)
    assert row["words with one"] == 0.3
    assert row["such as"] == "©© © ☃"


def test_another_field_and_a_set_without_words(folder, tmp_path):
    model = vocabulary.load(str(folder / "spm.model"))
    counts = vocabulary.count(model, Source(f"jsonl:{folder}/b.jsonl"), "body")
    assert (counts.words, counts.row("b")["unknown pieces"], counts.row("b")["such as"]) == (2, 0.0, "")
    path = corpus.write_jsonl(tmp_path / "empty.jsonl", [{"text": " "}])
    row = vocabulary.count(model, Source(f"jsonl:{path}")).row("empty")
    assert (row["texts"], row["pieces per word"], row["words with one"]) == (1, 0.0, 0.0)


def test_a_bar_does_not_end_a_cell():
    assert vocabulary.table([{"a": "x | y"}]) == "| a |\n| --- |\n| x \\| y |"


@pytest.mark.parametrize("given", ["jsonl:a.jsonl", "=jsonl:a.jsonl", "jsonl:a=b.jsonl", "a"])
def test_a_source_without_a_name(given):
    with pytest.raises(
        ValueError, match=f"`--source` must be NAME=SOURCE, each name once. Received: '{given}'"
    ):
        vocabulary.named_sources([given], "train")
    with pytest.raises(ValueError, match=r"each name once. Received: 'a=text:c'"):
        vocabulary.named_sources(["a=text:b", "a=text:c"], "train")


@pytest.mark.multiprocess
def test_program(folder, tmp_path):
    source = f"--source=mine=jsonl:{folder}/a.jsonl.gz"
    done = run_program(
        "benchmarks.pretraining.vocabulary", f"--preset={folder}/preset", source, f"--json={tmp_path}/v.json"
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "v.json").read_text())
    assert (row["set"], row["texts"]) == ("mine", 4)
    assert done.stdout.startswith("| set | texts | pieces per word |")
    done = run_program("benchmarks.pretraining.vocabulary", source)
    assert done.returncode == 1
    assert "one of `--tokenizer` and `--preset` must be given" in done.stderr
