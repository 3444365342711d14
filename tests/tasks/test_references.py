"""What an exported model should answer, and how far an answer is from it."""

import types

import numpy as np
import pytest

from convnlp.tasks import EncoderReference
from convnlp.tasks.classification.answers import ClassifierAnswers
from tests.small_classifier import small_classifier

FLOATS = np.array([0.25, 0.5], "float32")


def reference(**expected):
    """A reference that expects these outputs of any text."""
    return EncoderReference(
        types.SimpleNamespace(model=None, preprocess=lambda text: text, answer=lambda rows: expected)
    )


@pytest.mark.parametrize("wrong", ["first", "second"])
def test_a_value_that_is_no_number_is_an_error_wherever_it_is(wrong):
    outputs = {"first": FLOATS + 0.125, "second": FLOATS}
    judge = reference(first=FLOATS, second=FLOATS)
    assert judge.error("serving_default", {"text": ["a", "b"]}, outputs) == 0.125
    outputs[wrong] = FLOATS * np.nan
    assert np.isnan(judge.error("serving_default", {"text": ["a", "b"]}, outputs))


def test_what_is_no_float_must_be_equal():
    judge = reference(names=np.array([b"x", b"y"], object), scores=FLOATS)
    for names, error in (([b"x", b"y"], 0.0), ([b"x", b"z"], np.inf)):
        outputs = {"names": np.array(names, object), "scores": FLOATS}
        assert judge.error("serving_default", {"text": ["a", "b"]}, outputs) == error


def test_rows_that_are_asked_about_again_keep_their_logits():
    """As text and as ids: two signatures, and two requests that differ in one token."""
    model = small_classifier(["lightweight_conv"], 8, ["a", "b", "c"])
    judge = ClassifierAnswers(model).reference()
    rows = {name: np.asarray(values) for name, values in model.preprocessor(["the river"]).items()}
    other = {**rows, "token_ids": rows["token_ids"] + (np.arange(8) == 0)}
    first, second = (model(each, training=False).numpy() for each in (rows, other))
    assert np.abs(first - second).max() > 1e-4
    for _ in range(2):
        np.testing.assert_array_equal(judge.edge({"text": ["the river"]}), first)
        np.testing.assert_array_equal(judge.edge({"token_ids": other["token_ids"]}), second)
    np.testing.assert_array_equal(judge.edge({"token_ids": rows["token_ids"]}), first)
