"""Texts of test sets in documents: against a plain search for their words, and where it begins."""

import random
import unicodedata

import pytest

from convnlp.corpora.contamination import TestTexts, source_of, texts_of
from convnlp.corpora.words import hashes, words
from convnlp.data import Source, SourceError
from tests import corpus
from tests.corpora.prose import prose

DOCUMENT = prose(0, 200)
WORDS = words(DOCUMENT)


def is_found(test_text, document=DOCUMENT):
    return TestTexts([test_text]).are_in(hashes(words(document)))


@pytest.mark.parametrize(("length", "found"), [(7, False), (8, True), (12, True), (13, True), (40, True)])
def test_texts_of_eight_words_and_more_are_found(length, found):
    assert is_found(" ".join(WORDS[50 : 50 + length]).upper() + "?!") is found


def test_thirteen_words_of_a_long_text_are_enough_and_twelve_are_not():
    start, end = prose(8, 30), prose(9, 30)
    assert is_found(f"{start} {' '.join(WORDS[60:73])} {end}")
    assert not is_found(f"{start} {' '.join(WORDS[60:72])} {end}")
    assert not is_found(" ".join(WORDS[60:71]) + " other")  # 12 words, of which 11 stand there
    assert not is_found(" ".join(WORDS[60:66] + WORDS[67:74]))  # 13 words in a row, not here and there


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_a_copy_in_another_normal_form_is_found(form):
    text = "Où est passée la première élève ﬁnlandaise après la fête d'été ?"
    assert is_found(text, unicodedata.normalize(form, text))


def test_words_keep_their_marks():
    """Without its vowel signs, an Indian word would be another one, and most of Thai single letters."""
    assert words("हिन्दी में किताबें") == ["हिन्दी", "में", "किताबें"]
    assert words("ที่นี่ ❤\ufe0f") == ["ที่นี่"]
    assert not is_found("की की की की की की की की", "का का का का का का का का")


def test_of_texts_of_several_lengths_each_is_found():
    found = TestTexts([prose(8, 8), prose(9, 10), " ".join(WORDS[50:62])])
    assert found.are_in(hashes(WORDS))
    assert not found.are_in(hashes(WORDS[:50] + WORDS[62:]))


def test_it_finds_what_a_plain_search_finds():
    rng = random.Random(0)
    vocabulary = ["the", "river", "of", "stone"]
    tests = [[rng.choice(vocabulary) for _ in range(rng.randint(6, 16))] for _ in range(400)]
    found = TestTexts(map(" ".join, tests))
    answers = []
    for _ in range(60):
        document = [rng.choice(vocabulary) for _ in range(rng.randint(0, 300))]
        text = f" {' '.join(document)} "
        expected = any(
            f" {' '.join(test[start : start + size])} " in text
            for test in tests
            if len(test) >= 8
            for size in [min(len(test), 13)]
            for start in range(len(test) - size + 1)
        )
        answers.append(expected)
        assert found.are_in(hashes(document)) == expected
    assert {*answers} == {True, False}


def test_without_texts_nothing_is_found():
    assert len(TestTexts([])) == len(TestTexts(["too short"])) == 0
    assert not is_found("")
    assert not TestTexts([DOCUMENT]).are_in(hashes([]))


def test_texts_of_a_test_set(tmp_path):
    rows = [
        {"question": "Who?", "answers": {"text": ["she", "he"]}, "id": 7},
        {"question": "Where?", "label": 1},
    ]
    source = Source(f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', rows)}")
    assert texts_of(source) == ["Who?", "she", "he", "Where?"]
    assert texts_of(source, ["question"]) == ["Who?", "Where?"]
    assert texts_of(source, ["answers"]) == ["she", "he"]  # which the second record lacks
    with pytest.raises(SourceError, match=r"a.jsonl, split train: no field 'text' \(available: 'question'"):
        texts_of(source, ["text"])
    with pytest.raises(SourceError, match="a test set must consist of files, such as"):
        texts_of(Source("tfds:glue/sst2", "test"))


@pytest.mark.parametrize(("num_words", "is_said"), [(7, True), (8, False)])
def test_a_test_set_of_short_texts_alone_is_named(tmp_path, caplog, num_words, is_said):
    rows = [{"text": " ".join(WORDS[:size]), "label": "fine"} for size in (3, num_words)]
    source = Source(f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', rows)}")
    assert (len(TestTexts(texts_of(source))) == 0) == is_said
    assert (f"{source}: no text has 8 words, so none of them is looked for" in caplog.text) == is_said


def test_no_text_of_a_test_set_is_passed_over(tmp_path):
    (tmp_path / "a.csv").write_text("text,text\nOne.,Two.\n")
    with pytest.raises(SourceError, match="column 'text' appears twice"):
        texts_of(Source(f"csv:{tmp_path}/a.csv"))


def test_a_fingerprint_is_that_of_the_texts():
    texts = [prose(number, 20) for number in range(4)]
    fingerprint = TestTexts(texts).fingerprint()
    assert TestTexts([*texts[::-1], texts[0], "too short"]).fingerprint() == fingerprint
    others = TestTexts([*texts[:3], prose(9, 20)])
    assert len(others) == len(TestTexts(texts))
    assert others.fingerprint() != fingerprint
    assert TestTexts([]).fingerprint() != fingerprint


def test_a_test_set_is_one_split(tmp_path):
    assert source_of("jsonl:sst2.test.jsonl") == Source("jsonl:sst2.test.jsonl")
    with pytest.raises(SourceError, match=r"must be one split; write its name in place of {split}"):
        source_of("jsonl:sst2.{split}.jsonl")
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert source_of(f"hf:{tmp_path}/test").path == f"{tmp_path}/test"
    with pytest.raises(SourceError, match=f"must be one split, such as hf:{tmp_path}/test"):
        source_of(f"hf:{tmp_path}/")
