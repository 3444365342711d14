"""Soft labels of other classifiers: what they say, of which texts, and which classifiers fit."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp.data import Label, Source, validation
from convnlp.models import Seq2SeqBackbone, TextClassifier, TextClassifierPreprocessor, Tokenizer
from convnlp.tasks import Classification
from tests import corpus

NAMES = ("bad", "good")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two classifiers with the classes of the data, one without names, one of other classes, one of pairs."""
    folder = tmp_path_factory.mktemp("teachers")
    corpus.write_jsonl(folder / "reviews.jsonl", corpus.reviews(60))
    tokenizer = Tokenizer(corpus.tiny_proto())
    size = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 16, "kernel_size": 3}
    for number, labels in enumerate((NAMES, NAMES, None, ("good", "bad"), NAMES)):
        keras.utils.set_random_seed(number)
        model = TextClassifier(
            Seq2SeqBackbone(tokenizer.vocabulary_size(), **size, num_decoder_layers=0),
            num_classes=2,
            preprocessor=TextClassifierPreprocessor(tokenizer, 8 + 8 * number),
            labels=labels and list(labels),
            pooling="pair" if number == 4 else "mean_max",
        )
        model.save_to_preset(str(folder / f"teacher{number}"))
    return folder


def task(folder, *teachers):
    return Classification(
        tokenizer=Tokenizer(corpus.tiny_proto()),
        label=Label("label", names=NAMES),
        sequence_length=24,
        teachers=tuple(f"{folder}/{teacher}" for teacher in teachers),
    )


def test_soft_labels_are_the_mean_answer_to_the_same_text(folder):
    taught = task(folder, "teacher0", "teacher2")
    found = taught.read(Source(f"jsonl:{folder}/reviews.jsonl"), training=True)
    is_held_out = validation.choose(found)
    kept = taught.for_training(validation.take(found, ~is_held_out))
    texts = [row["text"] for row, is_held in zip(corpus.reviews(60), is_held_out, strict=True) if not is_held]
    answers = [
        tf.nn.softmax(TextClassifier.from_preset(f"{folder}/{name}").predict(texts, verbose=0))
        for name in ("teacher0", "teacher2")
    ]
    np.testing.assert_allclose(kept.soft_labels, np.mean(answers, 0), atol=1e-6)
    (batch,) = taught.batches(dataclasses.replace(kept), len(kept), training=False)
    np.testing.assert_array_equal(batch["soft_label"], kept.soft_labels)


def test_they_answer_texts_without_labels_too(folder):
    """The class that they hold most probable is taken for the label, and counts as one of that class."""
    texts = corpus.documents(20)
    corpus.write_jsonl(folder / "more.jsonl", [{"text": text} for text in texts])
    taught = dataclasses.replace(task(folder, "teacher0"), class_weights={"good": 3.0})
    found = taught.read(Source(f"jsonl:{folder}/reviews.jsonl"), training=True)
    unlabelled = taught.read_unlabelled(Source(f"jsonl:{folder}/more.jsonl"))
    both, alone = taught.for_training(found, unlabelled), taught.for_training(found)
    assert len(both) == 80
    for kept, expected in zip(
        (both.columns[0][:60].to_list(), both.columns[0][60:].to_list()),
        (found.columns[0].to_list(), unlabelled.columns[0].to_list()),
        strict=True,
    ):
        assert kept == expected
    np.testing.assert_array_equal(both.labels[:60], found.labels)
    np.testing.assert_allclose(both.soft_labels[:60], alone.soft_labels, atol=1e-6)

    answers = tf.nn.softmax(TextClassifier.from_preset(f"{folder}/teacher0").predict(texts, verbose=0))
    np.testing.assert_allclose(both.soft_labels[60:], answers, atol=1e-6)
    np.testing.assert_array_equal(both.labels[60:], np.argmax(answers, axis=1))
    np.testing.assert_array_equal(both.weights, np.where(both.labels == 1, 3.0, 1.0))


def test_without_teachers_there_are_none(folder):
    plain = task(folder)
    found = plain.read(Source(f"jsonl:{folder}/reviews.jsonl"), training=True)
    assert plain.for_training(found) is found
    assert "soft_label" not in plain.batches(found, 4, training=True).element_spec


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ("teacher3", r"`teachers` must have the classes \['bad', 'good'\]\. .*\['good', 'bad'\]$"),
        (
            "teacher4",
            "^`teachers` must answer single texts .* Received: .*/teacher4, which compares two texts$",
        ),
        ("nobody", "nobody: no such directory"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused_before_others_are_asked(folder, last, message, monkeypatch):
    found = task(folder, "teacher0").read(Source(f"jsonl:{folder}/reviews.jsonl"), training=True)
    asked = []
    monkeypatch.setattr(TextClassifier, "predict", lambda model, *args, **kwargs: asked.append(model))
    with pytest.raises(ValueError, match=message):
        task(folder, "teacher0", last).for_training(found)
    assert not asked
