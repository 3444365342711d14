"""A dual encoder is exported as any classifier: to a SavedModel, and to TFLite with built-in operations."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp.export.edge_model import EdgeModel
from convnlp.export.lite import calibration, conversion, tflite_files
from convnlp.export.saved_models import versions
from convnlp.models import Seq2SeqBackbone, TextClassifier, TextClassifierPreprocessor, Tokenizer
from convnlp.tasks.classification.answers import ClassifierAnswers, _example
from tests import corpus

PAIR = ["the river", "the old teacher"], ["a river", "follows the river"]


@pytest.fixture(scope="module")
def classifier():
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), 2, 2, 16, 32, num_decoder_layers=0)
    preprocessor = TextClassifierPreprocessor(tokenizer, 16)
    model = TextClassifier(backbone, 2, preprocessor, pooling="pair", labels=["no", "yes"])
    model.head.kernel.assign(np.random.default_rng(0).normal(0, 0.1, model.head.kernel.shape))
    return model


@pytest.fixture(scope="module")
def preset(classifier, tmp_path_factory):
    directory = tmp_path_factory.mktemp("pair") / "preset"
    classifier.save_to_preset(str(directory))
    return str(directory)


def test_a_single_text_has_no_answer(classifier):
    signatures, _ = ClassifierAnswers(classifier).signatures()
    inputs = {name: {spec.name for spec in each.input_signature} for name, each in signatures.items()}
    assert inputs["serving_default"] == inputs["pair"] == inputs["explain_pair"] == {"text", "text_pair"}
    assert "explain" not in inputs
    found = [
        signatures[name](text=PAIR[0], text_pair=PAIR[1])["scores"] for name in ("serving_default", "pair")
    ]
    np.testing.assert_array_equal(*found)
    examples = [_example(pair) for pair in zip(*PAIR, strict=True)]
    np.testing.assert_array_equal(signatures["classify"](inputs=examples)["scores"], found[0])


def test_single_texts_do_not_calibrate(classifier):
    with pytest.raises(
        ValueError, match="must be two fields, because a TextClassifier reads text and text_p"
    ):
        calibration.encoded(classifier, PAIR[:1])
    assert len(calibration.encoded(classifier, PAIR)) == 2
    with pytest.raises(ValueError, match=r"`fields` must be one field or two\. Received: 3 fields$"):
        calibration.encoded(classifier, [*PAIR, PAIR[0]])


@pytest.mark.slow
def test_saved_model(classifier, preset, tmp_path):
    version, *_ = versions.export(preset, str(tmp_path / "model"))
    loaded = tf.saved_model.load(str(version))
    found = loaded.signatures["pair"](text=tf.constant(PAIR[0]), text_pair=tf.constant(PAIR[1]))["scores"]
    expected = tf.nn.softmax(classifier(classifier.preprocessor(x=PAIR)))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.ptp(expected[:, 0]) > 1e-3  # the pairs differ


@pytest.mark.slow
def test_tflite(classifier, preset, tmp_path):
    file = tmp_path / "pair.tflite"
    tflite_files.export(preset, str(file), mode="fp32")
    assert not conversion.custom_operations(file.read_bytes())
    inputs = classifier.preprocessor(x=PAIR)
    found = tflite_files.runner(file.read_bytes())(inputs["token_ids"].numpy())
    np.testing.assert_allclose(found, classifier(inputs), rtol=1e-4, atol=1e-4)
    model = EdgeModel(file)
    expected = tf.nn.softmax(classifier(inputs)).numpy()
    assert [row["scores"]["yes"] for row in model.predict(*PAIR)] == pytest.approx(expected[:, 1], abs=1e-4)
    with pytest.raises(ValueError, match="must be given: this model reads two texts each"):
        model.predict(PAIR[0])
