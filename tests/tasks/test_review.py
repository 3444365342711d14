"""What a task shows beside its scores, beside a plain computation."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp.data.examples import Examples
from convnlp.models import Tokenizer
from convnlp.prediction import words
from convnlp.tasks.classification import review as of_classifier
from convnlp.tasks.multi_label import review as of_several
from convnlp.tasks.question_answering import review as of_answers
from convnlp.tasks.regression import review as of_numbers
from convnlp.tasks.rows import outputs_of
from tests import corpus
from tests.small_classifier import small_classifier

LABELS = ["bad", "good", "other"]
NUMBER, LENGTH = 60, 24


@pytest.fixture(scope="module")
def found():
    tokenizer = Tokenizer(corpus.tiny_proto())
    texts = [row["text"] for row in corpus.reviews(NUMBER)]
    rows = [[*tokenizer(text).numpy()[: LENGTH - 1], tokenizer.end_token_id] for text in texts]
    labels = np.random.default_rng(0).integers(0, 3, NUMBER)
    return Examples((tf.ragged.constant(rows, dtype=tf.int32),), (LENGTH,), labels)


@pytest.mark.parametrize("mixer", ["lightweight_conv", "fourier"])  # of any length, and of one alone
def test_outputs_are_in_the_order_of_the_examples(found, mixer):
    keras.utils.set_random_seed(0)
    model = small_classifier([mixer], LENGTH, LABELS)
    ids = found.columns[0].to_tensor(shape=[None, LENGTH])
    mask = tf.sequence_mask(found.columns[0].row_lengths(), LENGTH)
    expected = model({"token_ids": ids, "padding_mask": mask}).numpy()
    np.testing.assert_allclose(outputs_of(model, found, 7), expected, atol=1e-5)


def test_of_a_classifier(found):
    keras.utils.set_random_seed(0)
    model = small_classifier(["lightweight_conv"], LENGTH, LABELS)
    logits = np.random.default_rng(1).normal(size=[NUMBER, 3]).astype("float32")
    logits[found.labels == 2, 2] = -9  # never right
    made = of_classifier.review(model, found, logits)
    per_class, confusion, calibration, thresholds, mistakes = made.sections

    answers, probabilities = logits.argmax(1), tf.nn.softmax(logits).numpy().max(1)
    for label, there, precision, recall, f1 in per_class.rows:
        c = LABELS.index(label)
        assert there == sum(found.labels == c)
        hits = sum((found.labels == c) & (answers == c))
        given = sum(answers == c)
        assert recall == hits / there
        assert precision == (hits / given if given else None)
        assert f1 == 2 * hits / (there + given)
    for i in range(3):
        for j in range(3):
            assert confusion.counts[i][j] == sum((found.labels == i) & (answers == j))
    error = 0.0
    for low in np.arange(10) / 10:
        inside = (probabilities >= low) & (probabilities < low + 0.1)
        if inside.any():
            right = np.mean((answers == found.labels)[inside])
            error += inside.mean() * abs(probabilities[inside].mean() - right)
    assert calibration.error == pytest.approx(error, rel=1e-4)
    assert sum(number for *_, number in calibration.bins) == NUMBER
    for threshold, share, right, _, number in thresholds.rows:
        is_given = probabilities >= threshold
        assert (number, share) == (is_given.sum(), pytest.approx(is_given.mean()))
        assert right == pytest.approx(np.mean((answers == found.labels)[is_given]))
    assert thresholds.rows[0][0] == of_classifier.THRESHOLDS[0]

    tokenizer = model.preprocessor.tokenizer
    wrong = [i for i in np.argsort(-probabilities, kind="stable") if answers[i] != found.labels[i]]
    assert len(mistakes.rows) == 10
    for row, i in zip(mistakes.rows, wrong, strict=False):
        assert (row["wanted"], row["found"]) == (LABELS[found.labels[i]], LABELS[answers[i]])
        assert row["probability"] == pytest.approx(probabilities[i])
        assert " ".join(word for word, _ in row["words"]) == row["text"].strip()
        ids = found.columns[0][int(i)].numpy()[:-1]
        without = np.stack([np.append(np.delete(ids, t), [1, 0]) for t in range(len(ids))])
        left = tf.nn.log_softmax(model({"token_ids": without, "padding_mask": without > 0})).numpy()
        fallen = np.log(probabilities[i]) - left[:, answers[i]]
        pieces = [
            piece.decode().replace("\u2581", " ") for piece in tokenizer.pieces(tf.constant(ids)).numpy()
        ]
        for found_word, word in zip(row["words"], words.of_pieces(pieces, fallen), strict=True):
            assert found_word == [word[0], pytest.approx(word[1], rel=1e-3, abs=1e-5)]


def test_the_texts_of_a_pair_are_told_apart():
    model = small_classifier(["lightweight_conv"], LENGTH, LABELS)
    tokenizer = model.preprocessor.tokenizer
    end = [tokenizer.end_token_id]
    texts = ("the old bridge", "a quiet garden")
    row = [*tokenizer(texts[0]).numpy(), *end, *tokenizer(texts[1]).numpy(), *end]
    pairs = Examples((tf.ragged.constant([row], dtype=tf.int32),), (LENGTH,), np.array([0]))
    made = of_classifier.review(model, pairs, np.array([[0.0, 3.0, 0.0]], "float32"))
    (mistake,) = made.sections[-1].rows
    assert mistake["text"] == "the old bridge | a quiet garden"
    assert [word for word, _ in mistake["words"]] == " ".join(texts).split()


def test_words_are_not_weighed_where_the_logits_are_not_of_this_model(found):
    keras.utils.set_random_seed(0)
    model = small_classifier(["lightweight_conv"], LENGTH, LABELS)
    logits = np.random.default_rng(1).normal(size=[NUMBER, 3]).astype("float32")
    mistakes = of_classifier.review(model, found, logits, explains=False).sections[-1]
    assert [row["words"] for row in mistakes.rows] == [None] * 10
    assert "leaving it out" not in mistakes.note


def test_words_of_long_mistakes_are_not_weighed(found):
    """Each token costs a forward pass; up to 256 are weighed."""
    keras.utils.set_random_seed(0)
    model = small_classifier(["lightweight_conv"], 300, LABELS)
    rows = [np.resize(found.columns[0][0].numpy()[:-1], count) for count in (256, 257)]
    long = Examples((tf.ragged.constant(rows, dtype=tf.int32),), (300,), np.array([0, 0]))
    logits = np.array([[0, 9, 0], [0, 8, 0]], "float32")
    weighed, unweighed = of_classifier.review(model, long, logits).sections[-1].rows
    assert (len(weighed["words"]) > 1, unweighed["words"]) == (True, None)


def test_the_most_doubtful_labels_come_first(found):
    model = small_classifier(["lightweight_conv"], LENGTH, LABELS)
    logits = np.random.default_rng(1).normal(size=[NUMBER, 3]).astype("float32")
    listed = of_classifier.mistakes(model, found, logits)
    probabilities, answers = tf.nn.softmax(logits).numpy(), logits.argmax(1)
    assert sorted(index for index, _ in listed) == np.flatnonzero(answers != found.labels).tolist()
    for index, answer in listed:
        assert answer["label"] == LABELS[answers[index]]
        assert answer["probability"] == pytest.approx(probabilities[index].max(), abs=1e-4)
        given = probabilities[index, found.labels[index]]
        assert answer["given_probability"] == pytest.approx(given, abs=1e-4)
    given = [answer["given_probability"] for _, answer in listed]
    assert given == sorted(given)


def test_of_a_classifier_that_is_always_right(found):
    model = small_classifier(["lightweight_conv"], LENGTH, LABELS)
    logits = np.where(np.arange(NUMBER) % 2, 20, 4)[:, None] * np.eye(3, dtype="float32")[found.labels]
    made = of_classifier.review(model, found, logits.astype("float32"))
    assert made.sections[2].bins == [(pytest.approx((1 + 1 / (1 + 2 * np.exp(-4))) / 2), 1.0, NUMBER)]
    assert [section.kind for section in made.sections] == ["table", "confusion", "calibration", "table"]
    assert made.intervals["f1_macro"] == (1.0, 1.0)


def test_of_many_classes(found):
    labels = [f"class {i}" for i in range(40)]
    model = small_classifier(["lightweight_conv"], LENGTH, labels)
    logits = np.zeros([NUMBER, 40], "float32")
    logits[:, 7] = 1.0
    given = np.repeat([0, 1, 7, 2], [9, 10, 30, 11])  # class 7 is right, and so in no row
    seven = Examples(found.columns, found.lengths, given)
    per_class, confused = of_classifier.review(model, seven, logits).sections[:2]
    assert confused.kind == "table"
    assert confused.rows == [[f"class {i}", "class 7", count] for i, count in ((2, 11), (1, 10), (0, 9))]
    assert [row[:2] for row in per_class.rows[:4]] == [
        ["class 7", 30],
        *([r[0], r[2]] for r in confused.rows),
    ]


def test_of_several_labels(found):
    wanted = np.array([[1, 0], [1, 1], [0, 0]], "float32")
    logits = np.array([[0.0, 1.0], [-1.0, 2.0], [-1.0, -3.0]])  # one half is enough for a label
    several = Examples(found.columns, found.lengths, wanted)
    (table,) = of_several.review(("a", "b"), several, logits).sections
    assert table.rows == [["a", 2, 1.0, 0.5, pytest.approx(2 / 3)], ["b", 1, 0.5, 1.0, pytest.approx(2 / 3)]]


def test_of_questions():
    words = [*["What"] * 5, *["how"] * 6, *["who"] * 4, "is", *["Say, when"] * 5]
    questions = [f"{word} the river?" for word in words]
    exact = [float(i % 2) for i in range(21)]
    f1 = [1.0 if each else 0.5 * (i % 4 == 0) for i, each in enumerate(exact)]
    answers = [{"answer": f"answer {i}", "score": (i * 8 % 21) / 21} for i in range(21)]
    kinds, mistakes = of_answers.review(questions, [["a", "b", "a"]] * 21, answers, exact, f1).sections

    def row(name, places):
        return [name, len(places), np.mean([exact[i] for i in places]), np.mean([f1[i] for i in places])]

    assert kinds.rows[0] == row("how", range(5, 11))
    others = [row("what", range(5)), row("(others)", range(11, 16)), row("when", range(16, 21))]
    assert sorted(kinds.rows[1:]) == sorted(others)  # "who" is asked too seldom
    wrong = sorted((i for i in range(21) if f1[i] == 0), key=lambda i: -answers[i]["score"])
    assert [(m["text"], m["wanted"], m["found"], m["probability"]) for m in mistakes.rows] == [
        (questions[i], "a | b", answers[i]["answer"], answers[i]["score"]) for i in wrong
    ]
    many = [{"answer": "x", "score": i / 50} for i in range(50)]
    few = of_answers.review(["who"] * 50, [["a"]] * 50, many, [0] * 50, [0] * 50).sections[1]
    assert [mistake["probability"] for mistake in few.rows] == [i / 50 for i in range(49, 29, -1)]


def test_of_numbers(found):
    tokenizer = Tokenizer(corpus.tiny_proto())
    wanted = np.arange(NUMBER, dtype="float32")
    given = wanted + np.where(np.arange(NUMBER) == 17, -5.0, 0.1)
    (table,) = of_numbers.review(tokenizer, Examples(found.columns, found.lengths, wanted), given).sections
    assert len(table.rows) == 10
    assert table.rows[0] == [tokenizer.detokenize(found.columns[0][17]), 17.0, 12.0, -5.0]
