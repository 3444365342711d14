"""What an exported model should answer, and how far an answer is from it."""

import types

import numpy as np
import pytest
import tensorflow as tf

from convnlp.models import Seq2SeqBackbone, Seq2SeqLM, Seq2SeqLMPreprocessor, Tokenizer
from convnlp.tasks import Answers, EncoderReference
from convnlp.tasks.classification.answers import ClassifierAnswers
from convnlp.tasks.multi_label import MultiLabelAnswers
from convnlp.tasks.text_to_text import LanguageModelAnswers
from convnlp.tasks.text_to_text import answers as text_to_text_answers
from tests import corpus
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


@pytest.mark.parametrize(("largest", "error"), [(0.25, 0.5), (4.0, 0.125)])
def test_large_values_may_differ_by_more(largest, error):
    expected = np.array([0.0, -largest])
    judge = reference(x=expected)
    assert judge.error("serving_default", {"text": ["a", "b"]}, {"x": expected + 0.5}) == error


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


def test_a_label_that_is_not_that_of_its_scores_is_an_error():
    answers = ClassifierAnswers(small_classifier(["lightweight_conv"], 8, ["a", "b", "c"]))
    inputs, judge = {"text": np.array([b"the river", b"a boat"], object)}, answers.reference()
    scores = answers.answer(judge.rows(inputs))["scores"].numpy()
    names = np.array([b"a", b"b", b"c"], object)
    right, wrong = names[scores.argmax(1)], names[scores.argmin(1)]
    for label, classes, is_wrong in (
        (right, names, False),
        (np.array([right[0], wrong[1]]), names, True),
        (right, names[::-1], True),
    ):
        outputs = {"label": label, "classes": np.tile(classes, [2, 1]), "scores": scores}
        error = judge.error("serving_default", inputs, outputs)
        assert error == np.inf if is_wrong else error < 1e-5


@pytest.mark.parametrize(
    ("threshold", "label"), [(None, "b"), (0.5, "b"), (0.75, "b"), (0.76, None), (1.0, None)]
)
def test_a_class_that_reaches_the_threshold_is_the_label(threshold, label):
    answers = object.__new__(ClassifierAnswers)
    answers.model = types.SimpleNamespace(labels=["a", "b"])
    row = answers.row({"label": "b", "scores": [0.25, 0.75]}, threshold)
    assert row == {"label": label, "probability": 0.75, "scores": {"a": 0.25, "b": 0.75}}


def test_several_labels_are_those_of_their_scores():
    """A probability of one half is enough; what was rounded to its other side is no error."""
    answers = object.__new__(MultiLabelAnswers)
    answers.model = types.SimpleNamespace(labels=["a", "b", "c"])
    scores = np.array([[0.5, 0.4999, 0.9]], "float32")
    labels = answers.chosen(tf.constant(scores)).numpy()
    assert labels.tolist() == [[b"a", b"", b"c"]]
    judge = answers.reference()
    judge.edge = lambda inputs: scores + 0.0002
    for given, error in ((labels, pytest.approx(0.0002, rel=0.01)), (labels[:, ::-1], np.inf)):
        assert judge.error("serving_default", {"text": ["x"]}, {"labels": given, "scores": scores}) == error
    assert answers.compare(scores, scores + 0.0002)["same_label"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(("num_layers", "most"), [(2, 12), (0, 4)])  # without an encoder, the source is there
def test_no_more_tokens_are_generated_than_the_decoder_has_places(num_layers, most):
    decoder = types.SimpleNamespace(longest_text=lambda: 12)
    backbone = types.SimpleNamespace(num_layers=num_layers, decoder=decoder)
    preprocessor = types.SimpleNamespace(encoder_sequence_length=8)
    lm = types.SimpleNamespace(backbone=backbone, preprocessor=preprocessor)
    text_to_text_answers._require_room(lm, most)
    with pytest.raises(ValueError, match=rf"`max_length` must be at most {most}: .*Received: {most + 1}"):
        text_to_text_answers._require_room(lm, most + 1)
    decoder.longest_text = lambda: None  # a decoder without weights for places
    text_to_text_answers._require_room(lm, 1000)


def test_embeddings_are_compared_by_their_lowest_cosine():
    found, expected = (
        np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0]]),
        np.array([[6.0, 8.0], [1.0, 1.0], [0, 0]]),
    )
    compared = Answers.compare(None, found[:2], expected[:2])
    assert compared == {"largest_error": 4.0, "lowest_cosine": pytest.approx(1 / np.sqrt(2))}
    assert Answers.compare(None, found, expected)["lowest_cosine"] == 0


@pytest.fixture(scope="module")
def lm():
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), 1, 2, 8, 16)
    for weight in backbone.trainable_weights:
        if weight.name != "gamma":
            weight.assign(weight + np.random.default_rng(0).normal(scale=0.5, size=weight.shape))
    return Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 12, 8))


def test_a_token_or_a_text_that_is_not_the_best_is_an_error(lm):
    answers, texts = LanguageModelAnswers(lm), np.array([b"the river", b"a boat"], object)
    judge = answers.reference()
    rows = {name: value.numpy() for name, value in answers.preprocess(tf.constant(texts)).items()}
    inputs = {"token_ids": rows["token_ids"]}
    ids = lm.generate_ids(rows["token_ids"], rows["padding_mask"], 7).numpy()
    assert judge.error("ids", inputs, {"generated_ids": ids}) < 1e-4
    written = np.array([text.encode() for text in lm.preprocessor.tokenizer.detokenize(ids)], object)
    for generated, error in ((written, 0.0), (written[::-1], np.inf)):
        assert judge.error("generate", {"text": texts}, {"generated_text": generated}) == error

    first, last = ids.copy(), ids.copy()
    first[1, 0], last[1, 6] = 3 + ids[1, 0] % 40, 3 + ids[1, 6] % 40
    goes_on = ids.copy()
    goes_on[0, 2] = 1  # the end token, which pads follow
    for wrong, error in ((first, 1e-3), (last, 1e-3), (goes_on, 1e300)):
        assert judge.error("ids", inputs, {"generated_ids": wrong}) > error
