"""Which bytes of a text each token stands for, against words and pieces one by one, in plain Python."""

import re

import numpy as np
import sentencepiece
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from convnlp.models import Tokenizer, answer_places
from tests import corpus

TOKENIZER = Tokenizer(corpus.tiny_proto())
PROCESSOR = sentencepiece.SentencePieceProcessor(model_proto=corpus.tiny_proto())
# Of Unicode's White_Space property, PropList.txt; Python's own list has the separators of ASCII too.
SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
WORD = re.compile(f"[^{SPACES}]+")
PARTS = ["the", "river", "captain", "s", "Old", ".", ",", "(", " ", "  ", "\n", "\xa0", "\u2003", "\u3000"]
PARTS += [
    "\ufb01",
    "e\u0301",
    "\xe9",
    "\xbd",
    "\u2026",
    "\u200b",
    "\u2581",
    "\xad",
    "\ufeff",
    "\u4f60",
    "\U0001f642",
]
PARTS += ["\u1100\u1161", "\xa8", "\x00", "</s>", "\u2047", "\uff21"]
TEXTS = st.one_of(st.text(max_size=20), st.lists(st.sampled_from(PARTS), max_size=12).map("".join))


def offsets(text):
    """What `ragged_with_offsets` should give, as a list of (id, begin, end)."""
    found = []
    for word in WORD.finditer(text):
        first = place = len(text[: word.start()].encode())
        last = first + len(word[0].encode())
        ids = PROCESSOR.encode(word[0])
        letters = [PROCESSOR.id_to_piece(i).replace("\u2581", "") for i in ids]
        is_spelt = "".join(letters) == word[0] and TOKENIZER.unk_token_id not in ids
        for i, piece in zip(ids, letters, strict=True):
            size = len(piece.encode())
            found.append((i, place, place + size) if is_spelt and size else (i, first, last))
            place += size
    return found


GRAPH = tf.function(
    TOKENIZER.ragged_with_offsets, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
)


@settings(max_examples=50, deadline=None)
@given(texts=st.lists(TEXTS, max_size=4))
@example(texts=[])
@example(texts=["", " ", "\u200b"])
@example(texts=["the\xa0river", "the\u3000river\u2003", "a\x85"])  # what tensorflow_text counts to the word
@example(texts=["the (old) captain", "r\xedver \ufb01ne", "\u4f60\u597d the"])
def test_tokens_stand_for_their_bytes(texts):
    given_texts = tf.constant(texts, tf.string)
    for function in (TOKENIZER.ragged_with_offsets, GRAPH):
        columns = [column.to_list() for column in function(given_texts)]
        found = [list(zip(*rows, strict=True)) for rows in zip(*columns, strict=True)]
        assert found == [offsets(text) for text in texts]
    for text, tokens in zip(texts, found, strict=True):
        for _, begin, end in tokens:
            part = text.encode()[begin:end].decode()  # or it raises: no character is cut
            assert part
            assert WORD.fullmatch(part)


def test_the_pieces_are_those_of_the_whole_text():
    texts = corpus.documents(200)
    ids, _, _ = TOKENIZER.ragged_with_offsets(tf.constant(texts))
    assert ids.to_list() == TOKENIZER.ragged(texts).to_list()


def test_bytes_that_are_no_text_do_no_harm():
    random = np.random.default_rng(0)
    texts = [random.integers(0, 256, size, dtype=np.uint8).tobytes() for size in random.integers(0, 40, 500)]
    _, begins, ends = TOKENIZER.ragged_with_offsets(tf.constant(texts))
    for text, first, last in zip(texts, begins.to_list(), ends.to_list(), strict=True):
        assert all(0 <= a < b <= len(text) for a, b in zip(first, last, strict=True))


def spans(tokens, begin, end):
    """The tokens of a span, by a loop over all pairs: the ones that hold it, and stand for the least."""
    pairs = [
        ((tokens[j][2] - tokens[i][1], -(j - i)), i, j)
        for i in range(len(tokens))
        for j in range(i, len(tokens))
        if tokens[i][1] <= begin < tokens[i][2] and tokens[j][1] < end <= tokens[j][2]
    ]
    return min(pairs)[1:] if pairs else (-1, -1)


@settings(max_examples=50, deadline=None)
@given(text=TEXTS, data=st.data())
def test_the_tokens_of_an_answer_hold_it(text, data):
    first = data.draw(st.integers(0, len(text)))
    answer = text[first : data.draw(st.integers(first, len(text)))]
    found = answer_places.find(text, [answer])
    assert (found is None) == (not answer.strip())
    begin, end = found or (0, 0)
    assert text.encode()[begin:end].decode() == answer.strip()
    _, begins, ends = TOKENIZER.ragged_with_offsets(tf.constant([text]))
    (i, j), tokens = (
        answer_places.token_spans(begins, ends, tf.constant([[begin, end]]))[0].numpy(),
        offsets(text),
    )
    assert (i, j) == (spans(tokens, begin, end) if end else (-1, -1))
    if i >= 0:
        assert answer.strip() in text.encode()[tokens[i][1] : tokens[j][2]].decode()


def test_an_answer_is_sought_outside_of_words_first():
    assert answer_places.find("find it in the inn", ["in"]) == (8, 10)
    assert answer_places.find("the inn", ["in"]) == (4, 6)
    assert answer_places.find("It is 12, not 2.", ["none", " 2 "]) == (14, 15)
    assert answer_places.find("Gr\xfc\xdfe (2)", ["(2)"]) == (8, 11)
    assert answer_places.find("a cafe\u0301 and a cafe", ["cafe"]) == (15, 19)
    assert answer_places.find("\u0915\u093e \u0915", ["\u0915"]) == (7, 10)  # a vowel sign of Devanagari
    assert answer_places.find("the inn", ["out", ""]) is None
