"""A text's ids are its bytes."""

import doctest

import pytest

from benchmarks.questions import byte_vocabulary
from convnlp.models import Tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(byte_vocabulary.model(), num_sentinels=2)


def test_examples():
    done = doctest.testmod(byte_vocabulary)
    assert done.attempted
    assert not done.failed


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "  two  spaces, at both ends  ",
        "tab\tline\nnext\r\x7f",
        "caf\u00e9 \u2013 \u201cquoted\u201d \u20ac",
        "\u2581 \u0109\u0100",  # what stands for a space, and for bytes
        "\u65e5\u672c e\u0301 \u00a0\u3000\uff21\uffff",  # which NFKC would change
    ],
)
def test_each_byte_is_a_token_and_the_same_byte_the_same_one(tokenizer, text):
    ids = tokenizer.ragged([text])[0].numpy().tolist()
    assert len(ids) == len(text.encode())
    assert min(ids, default=3) >= 3
    alone = {}
    for byte, token in zip(text.encode(), ids, strict=True):
        assert alone.setdefault(byte, token) == token
    assert len(set(alone.values())) == len(alone)


def test_all_bytes_but_the_first_have_a_piece_of_their_own(tokenizer):
    assert tokenizer.vocabulary_size() == 3 + 255 + 2
    ascii_ids = tokenizer.ragged([chr(byte) for byte in range(1, 128)])
    assert ascii_ids.row_lengths().numpy().tolist() == [1] * 127
    assert len(set(ascii_ids.flat_values.numpy())) == 127


def test_what_is_beyond_the_table_is_unknown_as_one(tokenizer):
    (a,) = tokenizer.ragged(["a"])[0].numpy()
    assert tokenizer.ragged(["a\U0001f600\U0001f600a\0"])[0].numpy().tolist() == [a, 2, a, 2]


def test_it_is_written_once(tmp_path):
    path = tmp_path / "bytes.spm"
    byte_vocabulary.write(path)
    first = Tokenizer.from_file(str(path)).get_vocabulary()
    path.write_bytes(b"kept")
    byte_vocabulary.write(path)
    assert path.read_bytes() == b"kept"
    assert first == Tokenizer(byte_vocabulary.model()).get_vocabulary()
