"""`convnlp.report.data_facts`: what is counted, and what a person is warned of."""

import numpy as np
import tensorflow as tf

from convnlp.data.examples import Examples
from convnlp.models import Tokenizer
from convnlp.report import data_facts
from tests import corpus

NAMES = ("bad", "good")


def examples(texts, labels, length=8):
    tokenizer = Tokenizer(corpus.tiny_proto())
    rows = [[*tokenizer.tokenize(text).numpy()[: length - 1], tokenizer.end_token_id] for text in texts]
    return Examples((tf.ragged.constant(rows, dtype=tf.int32),), (length,), np.array(labels)), tokenizer


def test_counts():
    texts = ["the river", "", "the river", "the old captain repairs the engine of the boat", "☃"]
    found, tokenizer = examples(texts, [0, 1, 1, 1, 1])
    facts = data_facts.of_split(found, tokenizer, NAMES)
    lengths = [min(len(tokenizer(text)) + 1, 8) for text in texts]
    assert facts["num_examples"] == 5
    assert facts["tokens"]["most"] == 8
    assert facts["tokens"]["median"] == sorted(lengths)[2]
    assert (facts["cut"], facts["empty"], facts["equal_texts"]) == (1, 1, 1)
    unknown = sum(list(tokenizer(text)).count(tokenizer.unk_token_id) for text in texts)
    assert facts["unknown"] == unknown / sum(lengths)
    assert facts["classes"] == {"bad": 1, "good": 4}
    assert facts["conflicting"] == 2


def test_several_labels_and_none():
    found, tokenizer = examples(["a", "b"], [[1.0, 0.0], [1.0, 1.0]])
    assert data_facts.of_split(found, tokenizer, NAMES)["classes"] == {"bad": 2, "good": 1}
    assert not {"classes", "conflicting"} & {*data_facts.of_split(found, tokenizer)}


def test_several_labels_conflict_if_they_are_not_the_same():
    found, tokenizer = examples(["a", "a", "b", "b"], [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    assert data_facts.of_split(found, tokenizer, NAMES)["conflicting"] == 2


def test_many_classes_are_counted_too():
    found, tokenizer = examples(["a"] * 3, [0, 0, 59])
    classes = data_facts.of_split(found, tokenizer, [*map(str, range(60))])["classes"]
    assert [classes[name] for name in ("0", "1", "59")] == [2, 0, 1]


def facts(**changes):
    values = {"num_examples": 1000, "length": 8, "cut": 0, "empty": 0, "equal_texts": 0, "unknown": 0.0}
    return {**values, "classes": {"bad": 500, "good": 500}, **changes}


def test_nothing_to_warn_of():
    assert data_facts.warnings({"train": facts(), "test": facts()}, {"test": 0}) == []


def test_each_warning():
    train = facts(cut=60, empty=2, equal_texts=20, conflicting=12, unknown=0.02)
    train["classes"] = {"bad": 985, "good": 15}
    found = data_facts.warnings({"train": train, "test": facts(num_examples=100)}, {"test": 7})
    expected = (
        "out of balance: 985 examples of 'bad' and 15 of 'good'",
        "1 of 2 classes have fewer than 20 examples: 'good'",
        "60 of 1,000 texts (6%) fill all 8 tokens",
        "2 training texts are empty",
        "20 of 1,000 training texts repeat an earlier one in the 8 tokens that are read.",
        "12 of 1,000 training texts also occur with another label in the 8 tokens that are read; no model",
        "2.0% of the pieces are unknown",
        "7 of 100 test examples (7.0%) are equal or nearly equal to a training example, which",
        "only 100 test examples",
    )
    assert len(found) == len(expected)
    for sentence, part in zip(found, expected, strict=True):
        assert part in sentence


def test_a_warning_says_what_the_programs_own_split_keeps_apart():
    (test, validation) = data_facts.warnings(
        dict.fromkeys(("train", "test", "validation"), facts()), {"test": 7, "validation": 7}
    )
    split = " If the program held them out, it kept only equal texts on one side."
    assert validation == test.replace("test", "validation") + split


def test_a_warning_says_how_much_of_texts_that_are_cut_was_compared():
    assert data_facts.warnings({"train": facts(equal_texts=20)}, {}) == [
        "20 of 1,000 training texts repeat an earlier one."
    ]
    (found,) = data_facts.warnings({"train": facts(), "test": facts(cut=1)}, {"test": 7})
    assert "to a training example in the 8 tokens that are read, which" in found
