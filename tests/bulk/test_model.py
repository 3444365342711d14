"""The model in a bulk prediction: its signature is looked at first, and answers come back in order."""

import shutil

import pytest
import tensorflow as tf

from convnlp.bulk import model as models
from tests.bulk.conftest import save_capitals

TEXTS = [b"a long text of many letters", b"", "Grüße".encode(), b"two words", b"x" * 500, b"y"]


def test_answers_are_in_the_order_of_the_texts(model):
    for batch_size in (1, 2, 100):
        answers = models.Predictor(model, "serving_default", batch_size).predict([(text,) for text in TEXTS])
        assert [answer["label"] for answer in answers] == [text.upper() for text in TEXTS]
        assert [answer["scores"][0] for answer in answers] == [len(text) for text in TEXTS]
    assert models.Predictor(model, "serving_default", 2).predict([]) == []


def test_texts_of_one_length_share_a_batch(model, monkeypatch):
    predictor = models.Predictor(model, "serving_default", 2)
    asked = []

    def function(text):
        asked.append([len(item) for item in text.numpy()])
        return {}

    monkeypatch.setattr(predictor, "_function", function)
    predictor.predict([(text,) for text in TEXTS])
    assert asked == [[0, 1], [7, 9], [27, 500]]


def test_two_inputs(model):
    assert models.text_inputs(model, "pair") == ["text", "text_pair"]
    (answer,) = models.Predictor(model, "pair", 8).predict([(b"a", b"b")])
    assert answer == {"joined": b"a|b"}


def test_an_output_that_is_not_one_an_example(model):
    with pytest.raises(ValueError, match=r"'count' must have one entry per example. Received: shape \[\]"):
        models.Predictor(model, "total", 8).predict([(b"a",)])


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("none", "must be one of the model's: ids, pair, serving_default, total. Received: 'none'"),
        ("__saved_model_init_op", "must be one of the model's: ids, pair,"),
        ("ids", "must take one text per example. Received: 'ids', whose input 'token_ids' is int32 of rank"),
    ],
)
def test_signatures_that_do_not_fit(model, signature, message):
    with pytest.raises(ValueError, match=message):
        models.text_inputs(model, signature)


def test_an_output_called_as_a_part_of_a_row_is_refused_before_anything_is_asked(tmp_path):
    text = tf.TensorSpec([None], tf.string, "text")
    named = tf.function(lambda text: {"line": text, "label": text}, input_signature=[text])
    tf.saved_model.save(tf.Module(), str(tmp_path), {"serving_default": named})
    with pytest.raises(ValueError, match=r"must not be named file, line or input. Received: \['line'\]"):
        models.text_inputs(str(tmp_path), "serving_default")


def test_what_is_no_model(tmp_path):
    with pytest.raises(ValueError, match="must be the directory of a SavedModel"):
        models.text_inputs(str(tmp_path), "serving_default")
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff")
    with pytest.raises(ValueError, match=r"saved_model\.pb is damaged"):
        models.text_inputs(str(tmp_path), "serving_default")


def test_a_fingerprint_is_the_models_wherever_it_lies(model, tmp_path):
    shutil.copytree(model, tmp_path / "copy")
    assert models.fingerprint(str(tmp_path / "copy")) == models.fingerprint(model)
    # Only a variable's value differs.
    other = [save_capitals(tmp_path / name, offset) for name, offset in (("0", 0.0), ("1", 1.0))]
    assert models.fingerprint(other[0]) != models.fingerprint(other[1])
    (tmp_path / "copy" / "assets" / "vocabulary.txt").write_text("a")
    assert models.fingerprint(str(tmp_path / "copy")) != models.fingerprint(model)
