"""The tokenizer program: layout, size, determinism, and one line where it cannot work."""

import os

import numpy as np
import pytest
import sentencepiece

from convnlp import train_tokenizer
from convnlp.data import Source, files
from convnlp.models import Tokenizer
from tests import corpus
from tests.run_program import run_program

LINES = corpus.documents(300)


def test_the_model_has_the_project_s_layout():
    proto = train_tokenizer.train(LINES, 190)
    model = sentencepiece.SentencePieceProcessor(model_proto=proto)
    assert model.vocab_size() == 90
    assert (model.pad_id(), model.eos_id(), model.unk_id(), model.bos_id()) == (0, 1, 2, -1)
    assert not any(model.is_byte(i) for i in range(90))
    tokenizer = Tokenizer(proto)
    assert tokenizer.vocabulary_size() == 190
    assert tokenizer.detokenize(tokenizer.ragged([LINES[0]])) == [LINES[0]]
    assert train_tokenizer.train(LINES, 190) == proto


def test_common_characters_are_pieces_though_the_text_has_none_of_them():
    generator = np.random.default_rng(0)
    words = ["".join(generator.choice(list("abcdefghij"), 6)) for _ in range(3000)]
    lines = [" ".join(generator.choice(words, 8)) for _ in range(2000)]
    tokenizer = Tokenizer(train_tokenizer.train(lines, 1200))
    text = "Crude OIL at $9.50 (+3%) ;-) {k: 'v'} `x` ~ ^ | \\ <a@b>"
    assert tokenizer.unk_token_id not in tokenizer.ragged([text]).flat_values.numpy()
    assert tokenizer.detokenize(tokenizer.ragged([text])) == [text]
    assert tokenizer.unk_token_id in tokenizer.ragged(["中"]).flat_values.numpy()


@pytest.mark.parametrize(
    ("lines", "size", "message"),
    [
        ([], 190, "too little text for vocabulary_size=190"),
        (LINES, 2**31 + 100, "`vocabulary_size` must be at most 16777316. Received: 2147483748"),
        (LINES, 100, "`vocabulary_size` must leave pieces besides 100 sentinels. Received: 100"),
    ],
)
def test_what_cannot_be_trained(lines, size, message):
    with pytest.raises(ValueError, match=message) as caught:
        train_tokenizer.train(lines, size)
    assert "\n" not in str(caught.value)


def test_a_vocabulary_too_large_for_the_text_is_cut(caplog):
    proto = train_tokenizer.train(LINES, 8000)
    tokenizer = Tokenizer(proto)
    size = tokenizer.vocabulary_size()
    assert 190 < size < 8000
    assert f"a vocabulary of only {size}, which replaces vocabulary_size=8000" in caplog.messages[-1]
    assert tokenizer.detokenize(tokenizer.ragged([LINES[0]])) == [LINES[0]]
    assert train_tokenizer.train(LINES, 8000) == proto


def test_what_is_wrong_with_the_source_is_not_too_little_text(tmp_path):
    path = corpus.write_jsonl(tmp_path / "a.jsonl", [*({"text": line} for line in LINES), {"text": 3}])
    lines = train_tokenizer.sample(Source(f"jsonl:{path}"), num_documents=999, num_bytes=10**6)
    with pytest.raises(Exception, match=r"line 301: `text` must be a string\. Received: 3"):
        train_tokenizer.train(lines, 190)
    with pytest.raises(ValueError, match=r"`character_coverage` must be a number in \[0.98, 1\]"):
        train_tokenizer.train(LINES, 190, character_coverage=0.9)


def test_the_sample_is_limited_and_cut_to_lines(tmp_path):
    long = "x" * (train_tokenizer.MAX_LINE_BYTES + 1)
    path = corpus.write_jsonl(tmp_path / "a.jsonl", [{"text": "one\ntwo"}, {"text": long}, {"text": "three"}])

    def sample(**limits):
        return list(
            train_tokenizer.sample(
                Source(f"jsonl:{path}"), **({"num_documents": 9, "num_bytes": 99999} | limits)
            )
        )

    everything = sample()
    assert everything[:2] == ["one", "two"]
    assert "".join(everything[2:-1]) == long
    assert max(map(len, everything)) <= train_tokenizer.MAX_LINE_BYTES
    assert sample(num_documents=1) == ["one", "two"]
    assert sample(num_bytes=1) == ["one", "two"]


def test_a_document_has_all_of_its_fields(tmp_path):
    path = corpus.write_jsonl(tmp_path / "a.jsonl", [{"a": f"a{i}", "b": f"b{i}"} for i in range(3)])
    lines = train_tokenizer.sample(Source(f"jsonl:{path}"), ("a", "b"), num_documents=2, num_bytes=99)
    assert list(lines) == ["a0", "b0", "a1", "b1"]


def test_every_file_of_many_contributes(tmp_path, monkeypatch):
    """Also to a sample that the first files could fill, and whichever of the two limits ends it."""
    monkeypatch.setattr(files, "OPEN_FILES", 2)
    for name in "abcde":
        corpus.write_jsonl(tmp_path / f"{name}.jsonl", [{"text": name * 10}] * 50)

    def sample(num_documents=999, num_bytes=99999):
        source = Source(f"jsonl:{tmp_path}/*.jsonl")
        return list(train_tokenizer.sample(source, num_documents=num_documents, num_bytes=num_bytes))

    for found in (sample(num_documents=30), sample(num_bytes=300)):
        assert len(found) == 30
        assert {line[0] for line in found} == {*"abcde"}
    assert len(sample()) == 250
    assert len(sample(num_documents=1)) == 1
    (tmp_path / "d.jsonl").write_text('{"text": "short"}\n')  # its group leaves its share to the next
    assert len(sample(num_documents=190)) == 51 + 70 + 50


@pytest.mark.multiprocess
def test_the_program(tmp_path):
    path = corpus.write_jsonl(tmp_path / "a.jsonl.gz", [{"text": line} for line in LINES])
    output = tmp_path / "new" / "spm.model"

    def run(*flags):
        return run_program("convnlp.train_tokenizer", f"--source=jsonl:{path}", f"--output={output}", *flags)

    failed = run("--vocabulary_size=100")
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1].startswith("error: `vocabulary_size` must leave pieces")
    assert not output.exists()
    done = run("--vocabulary_size=190")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{output}: 90 pieces, 190 tokens with 100 sentinels\n"
    assert os.listdir(output.parent) == ["spm.model"]
    assert Tokenizer.from_file(str(output)).vocabulary_size() == 190

    named = corpus.write_jsonl(tmp_path / "b.jsonl", [{"id": 7, "question": line} for line in LINES])
    done = run("--vocabulary_size=190", f"--source=jsonl:{named}", f"--output={tmp_path}/b.model")
    assert done.returncode == 0, done.stderr
    assert "using 'question' as text_field" in done.stderr
    assert (tmp_path / "b.model").read_bytes() == output.read_bytes()
    unclear = corpus.write_jsonl(tmp_path / "c.jsonl", [{"a": line, "b": line, "c": line} for line in LINES])
    failed = run(f"--source=jsonl:{unclear}", f"--output={tmp_path}/c.model")
    assert failed.returncode == 1
    assert "no field 'text' (available: 'a', 'b', 'c'); set text_field to the one to read" in failed.stderr
