"""What checks ask of a signature, and servers warm up with: the task says it."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp.export.saved_models import signatures
from convnlp.export.verification import requests
from convnlp.tasks import Classification
from convnlp.tasks.classification import ClassifierAnswers
from convnlp.tasks.rows import TEXT, signature
from tests.small_classifier import small_classifier


class WithQuestion(ClassifierAnswers):
    """A signature with an input of its own."""

    def signatures(self, max_length=None):
        found, rows = super().signatures(max_length)
        ask = signature(lambda question: self.answer(rows.of_texts(question)), question=TEXT)
        return {**found, "ask": ask}, rows


class AsksQuestions(WithQuestion):
    """Which says what that input is asked."""

    def request(self, name, texts, rows):
        questions = np.array([f"{text}?".encode() for text in texts], object)
        return {**super().request(name, texts, rows), "question": questions}


@pytest.fixture(scope="module")
def model():
    return small_classifier(["lightweight_conv"], 16, ["bad", "good"])


def asked(model, answers, monkeypatch):
    """Signature -> the inputs of its requests."""
    monkeypatch.setattr(Classification, "answers", classmethod(lambda cls, model: answers(model)))
    found = {}
    for name, inputs in requests.of_servable(signatures.servable(model)):
        found.setdefault(name, []).append(inputs)
    return found


def test_every_signature_is_asked_its_own_inputs(model, monkeypatch):
    found = asked(model, ClassifierAnswers, monkeypatch)
    keys = {name: {tuple(inputs) for inputs in given} for name, given in found.items()}
    assert keys == {
        "serving_default": {("text",)},
        "pair": {("text", "text_pair")},
        "classify": {("inputs",)},
        "ids": {("token_ids",)},
        "explain": {("text",)},
        "explain_pair": {("text", "text_pair")},
        "embed": {("text",)},
    }
    for inputs, size in zip(found["pair"], requests.BATCH_SIZES, strict=True):
        assert inputs["text"].tolist() == [text.encode() for text in requests.texts(size)]
        assert inputs["text_pair"].tolist() == inputs["text"].tolist()[::-1]
    longest = {
        (name, key): max(len(text.decode()) for text in given[-1][key])
        for name, given in found.items()
        for key in ("text", "text_pair")
        if key in given[-1]
    }
    short = {longest.pop(key) for key in [*longest] if key[0].startswith("explain")}
    assert short == {10}
    assert min(longest.values()) > 1000
    example = tf.train.Example.FromString(found["classify"][0]["inputs"][0])
    assert example.features.feature["text"].bytes_list.value[0] == requests.texts(1)[0].encode()


def test_a_task_says_what_its_own_inputs_are_asked(model, monkeypatch):
    found = asked(model, AsksQuestions, monkeypatch)
    assert [inputs["question"][0] for inputs in found["ask"]] == [f"{requests.texts(1)[0]}?".encode()] * 3
    with pytest.raises(
        ValueError, match=r"every input of signature 'ask', including question\. Received: text, "
    ):
        asked(model, WithQuestion, monkeypatch)
