"""Examples of one data set that equal, or nearly equal, those of another."""

import dataclasses
import types

import numpy as np
import pytest

from convnlp.data import Source, SourceError, minhash, overlap, rules
from convnlp.data.examples import Examples
from convnlp.finetuning import data
from tests import corpus


def examples(tokenizer, texts, length=512):
    return Examples((tokenizer.ragged(texts)[:, :length],), (length,))


def found(tokenizer, texts, others):
    pieces = overlap.Pieces(tokenizer)
    is_found = overlap.near_duplicates(examples(tokenizer, texts), examples(tokenizer, others), pieces)
    return is_found.tolist()


def long_text(seed):
    rng = np.random.default_rng(seed)
    return " ".join(rng.choice([*corpus.NOUNS, *corpus.VERBS, *corpus.ADJECTIVES], 80))


def test_equal_texts_whatever_their_case_and_signs(tokenizer):
    texts = ["The old river.", "A quiet garden", "The old rivers", "The", "."]
    others = ["a quiet  garden.", "the old. river", "a letter", ". ."]
    assert found(tokenizer, texts, others) == [True, True, False, False, False]


def test_the_order_of_letters_counts(tokenizer):
    assert found(tokenizer, ["the river old", "tne"], ["the old river", "net"]) == [False, False]


def test_half_of_a_text_is_not_nearly_all(tokenizer):
    halves = [" ".join(long_text(seed).split()[:40]) for seed in range(60)]
    texts, others = (
        [f"{a} {b}" for a, b in zip(halves[:20], each, strict=True)] for each in (halves[20:40], halves[40:])
    )
    assert sum(found(tokenizer, texts, others)) == 0


def test_what_is_mostly_unknown_is_not_compared(tokenizer):
    assert found(tokenizer, ["the 中 river"], ["the 文 river"]) == [False]


def test_almost_equal_texts(tokenizer):
    texts = [long_text(seed) for seed in range(20)]
    changed = [text.replace(text.split()[40], "the", 1) for text in texts]
    assert sum(found(tokenizer, changed, texts)) >= 18
    assert sum(found(tokenizer, [long_text(seed) for seed in range(100, 200)], texts)) == 0
    assert found(tokenizer, changed[:1], texts[:1]) == [True]


def test_parts_do_not_change_what_is_found(tokenizer, monkeypatch):
    texts = [*(long_text(seed) for seed in range(10)), "The old river.", ""]
    others = [*texts[3:7], long_text(50), "the old river"]
    whole = found(tokenizer, texts, others)
    assert sum(whole) == 5
    for size in (1, 300, 1000):
        monkeypatch.setattr(overlap, "PART_TOKENS", size)
        assert found(tokenizer, texts, others) == whole


def test_neighbours_do_not_change_what_is_found(tokenizer, monkeypatch):
    """In a short text, runs of pieces that reach into the next text would be a third of all."""
    texts = [" ".join(long_text(seed).split()[:14]) for seed in range(60)]
    changed = [f"{text} the" for text in reversed(texts)]
    together = found(tokenizer, texts, changed)
    assert sum(together) > 30
    monkeypatch.setattr(overlap, "PART_TOKENS", 1)  # each on its own
    assert found(tokenizer, texts, changed) == together


def test_texts_of_unknown_characters_are_not_compared(tokenizer):
    assert found(tokenizer, ["中中中中"], ["文文文文"]) == [False]


def test_texts_without_any_token(tokenizer):
    assert found(tokenizer, ["", "a river"], [""]) == [False, False]
    assert found(tokenizer, [""], ["a river"]) == [False]


def test_time_is_linear(tokenizer, monkeypatch):
    """Counted by the values that are hashed for the minima."""
    counts = []
    mixed = minhash.mixed
    monkeypatch.setattr(minhash, "mixed", lambda values: counts.append(len(values)) or mixed(values))
    texts = [long_text(seed) for seed in range(40)]
    found(tokenizer, texts[:20], texts[:20])
    half = sum(counts)
    found(tokenizer, texts, texts)
    assert half > 0
    assert sum(counts) - half < 2.2 * half


def test_the_program_says_so_in_one_line(tokenizer, caplog):
    texts = corpus.documents(20)
    held_out = {
        "validation": examples(tokenizer, ["a river", "the old engine"]),
        "test": examples(tokenizer, ["a river", texts[3].lower(), texts[5], "the old engine"]),
    }
    counts = data.report_overlap(examples(tokenizer, texts), held_out, tokenizer)
    assert counts == {"validation": 0, "test": 2}
    (line,) = caplog.messages
    assert line.startswith(
        "2 of 4 test examples (50.0%) are equal or nearly equal to a training example, such as "
    )
    assert line.endswith(rules.short(texts[3].lower()))
    assert "\n" not in line


def test_the_program_counts_equal_texts_that_are_not_compared_otherwise(tokenizer):
    odd = ["!!! ...", "\U0001f600 the \U0001f680 \U0001f680", "\U0001f600", ""]  # the last two say nothing
    assert not overlap.near_duplicates(*[examples(tokenizer, odd)] * 2, overlap.Pieces(tokenizer)).any()
    counts = data.report_overlap(
        examples(tokenizer, odd), {"test": examples(tokenizer, [*odd, "?!"])}, tokenizer
    )
    assert counts == {"test": 2}


def test_what_the_program_holds_out_is_not_trained_on_with_another_sign(tokenizer):
    texts = corpus.documents(40)
    found = examples(tokenizer, [*texts, *(f"{text}." for text in texts)])
    task = types.SimpleNamespace(read=lambda source: found)
    train, held_out, is_trained_on = data.read_examples(task, None, {}, tokenizer)
    assert data.report_overlap(train, held_out, tokenizer) == {"validation": 0}
    assert np.array_equal(is_trained_on[:40], is_trained_on[40:])
    assert len(held_out["validation"]) == 16


def test_what_is_cut_is_compared_as_far_as_it_is_read(tokenizer, caplog):
    train = examples(tokenizer, ["the river and the old engine of the boat"], length=4)
    others = examples(tokenizer, ["the river and the old captain"], length=4)
    data.report_overlap(train, {"test": others}, tokenizer)
    expected = "equal or nearly equal to a training example in the 4 tokens that are read, such as 'the "
    assert expected in caplog.text


def test_texts_of_unknown_characters_are_among_others_if_they_are_equal(tokenizer):
    unknown = ["\U0001f600", "\U0001f600 \U0001f680 \U0001f600"]  # which near-duplicates do not tell apart
    texts, others = [*unknown, "The old river."], [unknown[1], "the old river", "a letter"]
    labelled = [examples(tokenizer, [text]) for text in others]
    assert data.is_among(examples(tokenizer, texts), labelled, tokenizer).tolist() == [False, True, True]


@pytest.mark.parametrize(
    "labels", [np.array([2, 2]), np.array([0, 1]), np.array([1.5, 1.5], "float32"), None]
)
def test_one_class_is_not_learned(tokenizer, labels):
    found = dataclasses.replace(examples(tokenizer, ["a", "b"]), labels=labels)
    source = Source("csv:a.csv", "train[:20%]")
    if labels is None or labels.dtype.kind != "i" or len(set(labels)) > 1:
        data.check_classes(found, source)
    else:
        with pytest.raises(
            SourceError, match=r"split train\[:20%\].* two classes; .*Received: one class in 2"
        ):
            data.check_classes(found, source)


@pytest.mark.parametrize("held_out", [{}, {"validation": "validation"}], ids=repr)
def test_one_class_is_refused_when_the_data_are_read(tokenizer, held_out):
    found = dataclasses.replace(examples(tokenizer, corpus.documents(8)), labels=np.zeros(8, int))
    task = types.SimpleNamespace(read=lambda source, training=False: found)
    with pytest.raises(SourceError, match="at least two classes"):
        data.read_examples(task, Source("csv:a.csv"), held_out, tokenizer)
