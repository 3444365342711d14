"""`pooling="pair"`: two texts in one row are encoded as if each stood alone."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp.layers import MIXERS
from convnlp.models import Seq2SeqBackbone, TextClassifier, TextClassifierPreprocessor, TextRegressor

FIRST, SECOND = [7, 8, 9, 10, 1], [11, 12, 1]
APART = [name for name, mixer in MIXERS.items() if mixer.supports_packing]
TOGETHER = [name for name in MIXERS if name not in APART]


def row(*texts, length=12):
    ids = np.zeros([1, length], "int32")
    joined = np.concatenate(texts)
    ids[0, : len(joined)] = joined
    return {"token_ids": ids, "padding_mask": ids != 0}


def backbone_of(mixer, **changes):
    arguments = {"mixer": mixer, "kernel_size": 5, "max_sequence_length": 12, **changes}
    return Seq2SeqBackbone(50, 2, 2, 16, 32, num_decoder_layers=0, **arguments)


def dual(mixer):
    return TextClassifier(backbone_of(mixer), 3, pooling="pair")


def vector(classifier, text):
    """Mean and maximum over a text that goes through the encoder alone, a plain loop over its tokens."""
    states = np.asarray(classifier.backbone.encode(np.array([text], "int32")))[0]
    return np.concatenate([sum(states) / len(text), np.max(states, axis=0)])


@pytest.mark.parametrize("mixer", APART)
def test_each_text_is_read_alone(mixer):
    classifier = dual(mixer)
    u, v = vector(classifier, FIRST), vector(classifier, SECOND)
    expected = np.concatenate([u, v, np.abs(u - v), u * v])
    pooled = classifier.pooled(row(FIRST, SECOND), "pair")
    np.testing.assert_allclose(pooled[0], expected, rtol=1e-4, atol=1e-5)
    kernel, bias = classifier.head.get_weights()
    np.testing.assert_allclose(
        classifier(row(FIRST, SECOND))[0], expected @ kernel + bias, rtol=1e-4, atol=1e-4
    )


def test_neither_text_sees_the_other():
    """What the joint row does not promise."""
    classifier = dual("dynamic_conv")
    before = classifier.pooled(row(FIRST, SECOND), "pair").numpy()[0, :32]
    after = classifier.pooled(row(FIRST, [40, 41, 1]), "pair").numpy()[0, :32]
    np.testing.assert_array_equal(before, after)
    joint = TextClassifier(classifier.backbone, 3, pooling="mean_max")
    first = [joint.backbone.encode(row(FIRST, other)["token_ids"])[0, 4] for other in (SECOND, [40, 41, 1])]
    assert np.abs(first[0] - first[1]).max() > 1e-4


def test_one_text_has_no_second_vector():
    classifier = dual("lightweight_conv")
    u = vector(classifier, FIRST)
    pooled = classifier.pooled(row(FIRST), "pair").numpy()[0]
    np.testing.assert_allclose(pooled, np.concatenate([u, 0 * u, np.abs(u), 0 * u]), rtol=1e-4, atol=1e-5)


def test_single_texts_are_refused(tokenizer):
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), 1, 2, 16, 32, num_decoder_layers=0)
    preprocessor, texts = TextClassifierPreprocessor(tokenizer, 16), ["a river", "the boat"]
    classifier = TextClassifier(backbone, 2, preprocessor, pooling="pair", compile=True)
    regressor = TextRegressor(backbone, preprocessor, pooling="pair")
    pairs, y, slices = (texts, texts), [0, 1], tf.data.Dataset.from_tensor_slices
    for call in (
        lambda: classifier.fit(texts, y),
        lambda: classifier.fit(slices((texts, y)).batch(2)),
        lambda: classifier.fit(pairs, y, validation_data=(texts, y)),
        lambda: classifier.evaluate(np.array(texts), y),
        lambda: classifier.predict(texts),
        lambda: regressor.predict(slices(texts).batch(2)),
    ):
        with pytest.raises(ValueError, match=r"tuple of two columns for a model that compares two [^\n]*$"):
            call()
    for data in (pairs, slices((pairs, y)), slices((classifier.preprocessor(x=pairs), y))):
        classifier._check_form(data)


@pytest.mark.parametrize("mixer", TOGETHER)
def test_mixers_that_cannot_keep_texts_apart_are_refused(mixer):
    with pytest.raises(ValueError, match=f"`pooling` must not be 'pair' .*'{mixer}'"):
        dual(mixer)


def test_merged_positions_are_refused():
    merging = backbone_of("dynamic_conv", pool_size=[1, 2])
    with pytest.raises(ValueError, match=r"`pooling` must not be 'pair' .* pool_size=\[1, 2\]"):
        TextClassifier(merging, 3, pooling="pair")


def test_a_preset_answers_the_same(tokenizer, tmp_path):
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), 1, 2, 16, 32, num_decoder_layers=0)
    classifier = TextClassifier(backbone, 2, TextClassifierPreprocessor(tokenizer, 16), pooling="pair")
    inputs = classifier.preprocessor(x=(["the river", "the old teacher"], ["a river", "follows"]))
    classifier.save_to_preset(str(tmp_path / "preset"))
    loaded = TextClassifier.from_preset(str(tmp_path / "preset"))
    np.testing.assert_array_equal(loaded(inputs), classifier(inputs))
    gradients = tf.GradientTape()
    with gradients:
        loss = tf.reduce_sum(loaded(inputs, training=True) ** 2)
    found = gradients.gradient(loss, loaded.trainable_variables)
    assert all(gradient is not None for gradient in found)
