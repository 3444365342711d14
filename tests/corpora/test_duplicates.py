"""Near-duplicates: minima estimate what texts share; the first of those that share most of it stays."""

import doctest
import itertools

import numpy as np
import pytest

from convnlp.corpora import contamination, duplicates, quality, words
from convnlp.data import Source
from tests.corpora.prose import changed, prose


def keys(text, min_similarity=0.8):
    return duplicates.keys(text, words.hashes(words.words(text)), min_similarity)


def shingles(text):
    found = words.words(text)
    return {tuple(found[place : place + 5]) for place in range(len(found) - 4)}


def jaccard(one, other):
    one, other = shingles(one), shingles(other)
    return len(one & other) / len(one | other)


def removed(texts, min_similarity=0.8):
    """The numbers of the texts that are removed, with their rules, grouped as by the pipeline."""
    groups, found = {}, {}
    for place, text in enumerate(texts):
        names, signature = keys(text, min_similarity)
        for name in names:
            groups.setdefault(name, []).append((place, signature))
    for name, members in groups.items():
        for place, rule in duplicates.repeated(name, members[::-1], min_similarity):
            found[place] = min(rule, found.get(place, rule))
    return found


@pytest.mark.parametrize("module", [contamination, duplicates, quality, words])
def test_examples(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(module, extraglobs={"Source": Source}).failed == 0


@pytest.mark.parametrize("count", [0, 1, 3, 8, 20])
def test_minima_estimate_the_jaccard_index(count):
    """Over 40 pairs the mean error is that of 4,000 minima: a standard deviation of 0.008 at most."""
    errors = []
    for seed in range(40):
        text = prose(seed, 120)
        other = changed(text, count, seed)
        signs = [np.frombuffer(keys(each)[1], "<u2") for each in (text, other)]
        errors.append((signs[0] == signs[1]).mean() - jaccard(text, other))
    assert abs(np.mean(errors)) < 4 * 0.008
    if not count:
        assert errors == [0] * 40


def test_similar_texts_have_a_group_in_common():
    text = prose(0, 200)
    near = [changed(text, 2, seed) for seed in range(20)]
    assert all(0.85 < jaccard(text, each) < 1 for each in near)
    assert all({*keys(text)[0]} & {*keys(each)[0]} for each in near)
    others = [prose(seed, 200) for seed in range(1, 20)]
    assert not any({*keys(one)[0]} & {*keys(other)[0]} for one, other in itertools.combinations(others, 2))


def test_the_first_of_near_duplicates_stays():
    texts = [prose(number, 150) for number in range(8)]
    copies = [texts[2].upper(), changed(texts[0], 1), texts[5], changed(texts[5], 2, seed=1), texts[5] + "!"]
    found = removed(texts + copies)
    assert found == {
        8: "duplicate",
        9: "near_duplicate",
        10: "duplicate",
        11: "near_duplicate",
        12: "duplicate",
    }
    assert removed([copies[1], texts[0]]) == {1: "near_duplicate"}  # whichever comes first


def test_similarity_decides():
    text = prose(0, 150)
    other = changed(text, 8)
    assert 0.4 < jaccard(text, other) < 0.75
    assert removed([text, other]) == {}
    members = [(place, keys(each)[1]) for place, each in enumerate((text, other))]  # of one group
    assert duplicates.repeated(b"\x00", members) == []
    similar = jaccard(text, other) - 0.15
    assert duplicates.repeated(b"\x00", members, similar) == [(1, "near_duplicate")]


def test_a_low_threshold_finds_what_it_names():
    """With bands of five minima, most of these pairs would have no group in common."""
    pairs = []
    for seed in range(150):
        text = prose(seed, 80)
        pairs.append((text, changed(text, 6, seed)))
    similar = [pair for pair in pairs if jaccard(*pair) >= 0.35]
    assert len(similar) > 100
    assert sum(jaccard(*pair) < 0.6 for pair in similar) > 100
    together = sum(bool({*keys(one, 0.35)[0]} & {*keys(other, 0.35)[0]}) for one, other in similar)
    assert together >= 0.95 * len(similar)


def test_the_recall_of_every_threshold_is_high():
    for percent in range(3, 101):
        size = duplicates.band_size(percent / 100)
        assert duplicates.recall(percent / 100, size) >= 0.95
    assert duplicates.recall(0.8, duplicates.band_size(0.8)) == pytest.approx(0.9996, abs=5e-5)
    rng = np.random.default_rng(0)  # the probability, drawn
    equal = rng.random([4000, 33, 3]) < 0.5
    assert equal.all(axis=2).any(axis=1).mean() == pytest.approx(duplicates.recall(0.5, 3), abs=0.01)


def test_groups_of_bands_are_not_taken_for_those_of_equal_words():
    """Also those of a hundred bands."""
    names, _ = keys(prose(0), 0.05)
    assert len({*names}) == 101
    assert sum(bool(duplicates.repeated(name, [(0, bytes(200)), (1, b"\1" * 200)])) for name in names) == 1


def test_eighty_minima_of_a_hundred_are_enough():
    ones = np.ones(100, np.uint16)
    for count, found in ((79, []), (80, [(1, "near_duplicate")])):
        other = np.where(np.arange(100) < count, ones, 2).astype(np.uint16)
        assert duplicates.repeated(b"\x00", [(0, ones.tobytes()), (1, other.tobytes())]) == found


def test_short_texts_are_duplicates_of_the_same_words_alone():
    assert removed(["the old river", "The old river!", "the old rivers"]) == {1: "duplicate"}


def test_texts_without_words_are_duplicates_of_the_same_text_alone():
    assert removed(["", "...", "❤❤❤", " ...\n", "\ud800", " "]) == {3: "duplicate", 5: "duplicate"}


def test_a_large_group_is_compared_with_a_bounded_number(monkeypatch):
    rng = np.random.default_rng(0)
    members = [(place, rng.integers(0, 1 << 16, 100, np.uint16).tobytes()) for place in range(150)]
    members += [(place + 1000, signature) for place, signature in members]
    found = duplicates.repeated(b"\x00", members)
    assert [place for place, _ in found] == list(range(1000, 1000 + duplicates.MOST_COMPARED))


def test_hashes_of_words_are_fixed():
    """Groups of one run must be those of any other, whatever PYTHONHASHSEED is."""
    assert words.hashes(["river"]).tolist() == [0x969A03E83C7F649F]
    assert words.hashes(["half a pair \ud800"]).shape == (1,)
