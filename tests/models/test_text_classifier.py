import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp.layers import MIXERS
from convnlp.models import MultiLabelClassifier, Seq2SeqBackbone, TextClassifier, TextClassifierPreprocessor
from tests import corpus
from tests.mixer_table import sampled
from tests.small_classifier import keep_ngrams


def rows(classifier, texts):
    return classifier.preprocessor(texts)


def test_logits_are_dense_of_the_pooled_tokens(classifier):
    texts = ["the river", "the old teacher follows"]
    inputs = rows(classifier, texts)
    hidden = classifier.backbone.encode(inputs["token_ids"], padding_mask=inputs["padding_mask"]).numpy()
    kernel, bias = classifier.head.get_weights()
    for i, mask in enumerate(inputs["padding_mask"].numpy()):
        valid = hidden[i][mask]
        expected = np.concatenate([valid.mean(0), valid.max(0)]) @ kernel + bias
        # float32 sums in another order
        np.testing.assert_allclose(classifier(inputs)[i], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(classifier.embed(inputs)[i], valid.mean(0), rtol=1e-4, atol=1e-5)


def test_pooled_layers_are_the_means_of_the_states_between_them(backbone, tokenizer, tmp_path):
    classifier = TextClassifier(backbone, 3, TextClassifierPreprocessor(tokenizer, 16), pooling="layers")
    inputs = rows(classifier, ["the river", "the old teacher follows"])
    x, mask = classifier.backbone.token_embedding(inputs["token_ids"]), inputs["padding_mask"].numpy()
    states = [x]
    for layer in classifier.backbone.encoder.layers:
        states.append(x := layer(x, padding_mask=inputs["padding_mask"]))
    means = [[row[kept].mean(0) for row, kept in zip(x.numpy(), mask, strict=True)] for x in states]
    kernel, bias = classifier.head.get_weights()
    expected = np.concatenate(means, axis=1) @ kernel + bias
    np.testing.assert_allclose(classifier(inputs), expected, rtol=1e-4, atol=1e-5)

    classifier.save_to_preset(str(tmp_path / "preset"))
    loaded = TextClassifier.from_preset(str(tmp_path / "preset"))
    np.testing.assert_array_equal(loaded(inputs), classifier(inputs))
    assert len(loaded.trainable_variables) == len(classifier.trainable_variables)
    np.testing.assert_array_equal(loaded.embed(inputs), classifier.embed(inputs))


@pytest.mark.parametrize("pooling", ["attention", "class_attention"])
def test_learned_pooling_is_part_of_the_head(backbone, tokenizer, tmp_path, pooling):
    classifier = TextClassifier(backbone, 3, TextClassifierPreprocessor(tokenizer, 16), pooling=pooling)
    inputs = rows(classifier, ["the river", "the old teacher follows"])
    masks = {"padding_mask": inputs["padding_mask"]}
    pooled = classifier.learned_pooling(classifier.backbone.encode(inputs["token_ids"], **masks), **masks)
    kernel, bias = classifier.head.get_weights()
    np.testing.assert_allclose(classifier(inputs), pooled @ kernel + bias, rtol=1e-4, atol=1e-5)
    trained = {id(variable) for variable in classifier.trainable_variables}
    assert {id(variable) for variable in classifier.learned_pooling.variables} <= trained
    np.testing.assert_allclose(classifier.embed(inputs), classifier.pooled(inputs, "mean"), atol=1e-5)

    for variable in classifier.learned_pooling.variables:
        variable.assign(np.random.default_rng(0).normal(size=variable.shape))
    classifier.save_to_preset(str(tmp_path / "preset"))
    loaded = TextClassifier.from_preset(str(tmp_path / "preset"))
    np.testing.assert_array_equal(loaded(inputs), classifier(inputs))
    other = {"attention": "class_attention", "class_attention": "attention"}[pooling]
    message = f"`pooling` must be one that the model has the weights of: {pooling}. Received: '{other}'"
    with pytest.raises(ValueError, match=message):
        loaded.pooled(inputs, other)


def test_layers_that_merge_positions_cannot_be_pooled_side_by_side(tokenizer):
    merging = Seq2SeqBackbone(
        tokenizer.vocabulary_size(), 2, 2, 16, 32, num_decoder_layers=0, pool_size=[1, 2]
    )
    with pytest.raises(ValueError, match=r"`pooling` must not be 'layers' .* pool_size=\[1, 2\]"):
        TextClassifier(merging, 3, pooling="layers")


def test_hashed_ngrams_stand_beside_the_pooled_tokens(backbone, tokenizer, tmp_path):
    preprocessor = TextClassifierPreprocessor(tokenizer, 16)
    classifier = TextClassifier(backbone, 3, preprocessor, pooling="mean", ngram_buckets=32)
    classifier.ngrams.table.assign(np.random.default_rng(0).normal(size=classifier.ngrams.table.shape))
    texts = ["the river", "the old teacher follows"]
    keep_ngrams(classifier, texts)
    inputs = rows(classifier, texts)
    assert np.any(classifier.ngrams(**inputs), axis=1).all()
    features = np.concatenate([classifier.embed(inputs), classifier.ngrams(**inputs)], axis=1)
    kernel, bias = classifier.head.get_weights()
    np.testing.assert_allclose(classifier(inputs), features @ kernel + bias, rtol=1e-4, atol=1e-5)
    classifier.save_to_preset(str(tmp_path / "preset"))
    loaded = TextClassifier.from_preset(str(tmp_path / "preset"))
    np.testing.assert_array_equal(loaded(inputs), classifier(inputs))


def test_what_trains_with_ngrams_has_chosen_them(backbone, tokenizer):
    classifier = TextClassifier(backbone, 2, TextClassifierPreprocessor(tokenizer, 8), ngram_buckets=32)
    classifier.compile()
    with pytest.raises(ValueError, match=r"`ngrams\.adapt` must be called before `fit`.*ngram_buckets=32"):
        classifier.fit(["the river", "the teacher"], [0, 1], verbose=0)
    keep_ngrams(classifier, ["the river"])
    before = classifier.ngrams.table.numpy()
    classifier.fit(["the river", "the teacher"], [0, 1], verbose=0)
    assert np.any(classifier.ngrams.table.numpy() != before)


@pytest.mark.parametrize(
    ("pooling", "width"),
    [("mean", 16), ("max", 16), ("mean_max", 32), ("layers", 48), ("attention", 16), ("class_attention", 16)],
)
def test_padding_does_not_change_the_answer(backbone, tokenizer, pooling, width):
    short, long = (TextClassifierPreprocessor(tokenizer, length) for length in (16, 40))
    classifier = TextClassifier(backbone, 3, pooling=pooling)
    assert classifier.head.kernel.shape == (width, 3)
    texts = ["the river", "a", ""]
    # float32 sums over another number of zeros
    np.testing.assert_allclose(classifier(short(texts)), classifier(long(texts)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mixer", sampled(MIXERS))
def test_a_text_has_the_answer_it_has_alone(mixer):
    """Whatever it is batched with, and however far that is padded."""
    backbone = Seq2SeqBackbone(
        50, 2, 2, 16, 32, num_decoder_layers=0, mixer=mixer, kernel_size=3, max_sequence_length=12
    )
    classifier = TextClassifier(backbone, 3)
    ids = np.random.default_rng(0).integers(3, 50, [2, 12])
    ids[0, 5:] = 0
    answers = [
        classifier({"token_ids": rows, "padding_mask": rows != 0})[0] for rows in (ids[:1, :5], ids[:1], ids)
    ]
    for answer in answers[1:]:
        np.testing.assert_allclose(answer, answers[0], atol=1e-5)  # float32 sums over another number of zeros


def test_rows_longer_than_the_weights_for_positions_are_refused(tokenizer):
    size = tokenizer.vocabulary_size(), 2, 2, 16, 32
    backbone = Seq2SeqBackbone(*size, mixer="res_mlp", max_sequence_length=12, pool_size=[1, 2])
    with pytest.raises(ValueError, match=r"`sequence_length` must be at most 12, .*sequence_length=13"):
        TextClassifier(backbone, 2, TextClassifierPreprocessor(tokenizer, 13))
    assert TextClassifier(backbone, 2, TextClassifierPreprocessor(tokenizer, 12)).preprocessor
    pooled = Seq2SeqBackbone(
        50, 2, 2, 16, 32, mixer=["dynamic_conv", "res_mlp"], max_sequence_length=12, pool_size=[1, 2]
    )
    assert pooled.encoder.longest_text() == 24
    assert Seq2SeqBackbone(50, 2, 2, 16, 32, max_sequence_length=12).encoder.longest_text() is None


def test_rows_longer_than_a_transform_are_refused(tokenizer):
    size = tokenizer.vocabulary_size(), 2, 2, 16, 32, 0
    backbone = Seq2SeqBackbone(*size, mixer="fourier", mixer_options={"fixed_length": 6})
    rule = r"`sequence_length` must be at most 6, the longest text that the encoder's mixers take\. Received"
    with pytest.raises(ValueError, match=rule):
        TextClassifier(backbone, 2, TextClassifierPreprocessor(tokenizer, 7))
    assert TextClassifier(backbone, 2, TextClassifierPreprocessor(tokenizer, 6)).preprocessor


def test_a_row_of_pads_gives_finite_logits(classifier):
    inputs = {"token_ids": tf.zeros([1, 4], tf.int32), "padding_mask": tf.zeros([1, 4], tf.bool)}
    np.testing.assert_array_equal(classifier(inputs), [classifier.head.bias.numpy()])
    np.testing.assert_array_equal(classifier.embed(inputs), np.zeros([1, 16]))


def test_fit_on_strings_learns(backbone, tokenizer):
    own = Seq2SeqBackbone.from_config(backbone.get_config())  # the shared one is not to be trained
    classifier = TextClassifier(own, 2, TextClassifierPreprocessor(tokenizer, 16))
    data = corpus.reviews(64)
    texts, labels = [row["text"] for row in data], [row["label"] for row in data]
    classifier.compile(optimizer=keras.optimizers.Adam(1e-2))
    history = classifier.fit(np.array(texts), np.array(labels), epochs=25, batch_size=32, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    predicted = classifier.predict(texts, verbose=0).argmax(-1)
    assert np.mean(predicted == labels) > 0.9
    assert not classifier.jit_compile


def test_predict_on_strings_pairs_and_datasets(classifier):
    texts = ["the river", "the teacher"]
    expected = classifier(rows(classifier, texts)).numpy()
    # predict runs the same graph as a compiled function: float32 rounding only
    np.testing.assert_allclose(classifier.predict(texts, verbose=0), expected, rtol=1e-5, atol=1e-6)
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(2)
    np.testing.assert_allclose(classifier.predict(dataset, verbose=0), expected, rtol=1e-5, atol=1e-6)
    pairs = classifier.predict((texts, texts[::-1]), verbose=0)
    assert pairs.shape == (2, 2)
    assert not np.allclose(pairs, expected)


def test_it_is_not_compiled_until_asked(classifier, backbone):
    assert not classifier.compiled
    with pytest.raises(ValueError, match="compile"):
        classifier.fit(["a"], [0])
    assert TextClassifier(backbone, 2, compile=True).compiled


def test_a_decoder_is_left_behind(backbone, classifier):
    assert backbone.num_decoder_layers == 2
    assert classifier.backbone.num_decoder_layers == 0
    ids = np.array([[5, 6, 7, 1]])
    np.testing.assert_array_equal(classifier.backbone.encode(ids), backbone.encode(ids))


def test_an_encoder_is_taken_as_it_is(backbone):
    encoder = backbone.encoder_only()
    assert TextClassifier(encoder, 2).backbone is encoder


def test_bfloat16_gives_float32_logits(tokenizer):
    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(), 1, 2, 16, 32, kernel_size=3, dtype="mixed_bfloat16"
    )
    classifier = TextClassifier(backbone, 2, TextClassifierPreprocessor(tokenizer, 8))
    assert classifier(rows(classifier, ["the river"])).dtype == tf.float32
    assert classifier.head.compute_dtype == "float32"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 1}, "`num_classes` must be a whole number >= 2. Received: 1"),
        (
            {"num_classes": 2, "pooling": "first"},
            "`pooling` must be one of mean, max, mean_max, layers, pair, attention, class_attention. "
            "Received: 'first'",
        ),
        ({"num_classes": 2, "labels": ["a"]}, "num_classes=2 classes. Received: 1 names"),
        ({"num_classes": 2, "labels": "ab"}, "`labels` must be a list of strings. Received: 'ab'"),
        ({"num_classes": 2, "dropout": 1.0}, r"`dropout` must be in \[0, 1\). Received: dropout=1.0"),
        ({"num_classes": 2, "dropout": None}, r"`dropout` must be in \[0, 1\). Received: dropout=None"),
    ],
)
def test_arguments_out_of_range(backbone, arguments, message):
    with pytest.raises(ValueError, match=message):
        TextClassifier(backbone, **arguments)


@pytest.mark.parametrize("cls", [TextClassifier, MultiLabelClassifier])
def test_a_number_of_classes_may_be_counted_by_numpy(backbone, cls):
    model = cls(backbone, np.array([0, 2, 1]).max() + 1)
    assert json.dumps(model.get_config()["num_classes"]) == "3"


def test_one_hot_targets_have_their_accuracy(backbone, tokenizer):
    classifier = TextClassifier(backbone, 2, TextClassifierPreprocessor(tokenizer, 16))
    texts, numbers = ["a river", "the boat", "the clock"], np.array([0, 1, 1])
    classifier.compile(loss=keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1))
    targets = np.eye(2, dtype="float32")[numbers]
    expected = np.mean(classifier.predict(texts, verbose=0).argmax(-1) == numbers)
    for batch_size in (2, 3):  # two rows could be broadcast to two classes
        scores = classifier.evaluate(texts, targets, batch_size, return_dict=True, verbose=0)
        assert scores["accuracy"] == pytest.approx(expected, abs=1e-6)
    assert "accuracy" in classifier.fit(texts, targets, verbose=0).history
    for loss in ("auto", keras.losses.SparseCategoricalCrossentropy(from_logits=True)):
        classifier.compile(loss=loss)
        assert "sparse_categorical_accuracy" in classifier.fit(texts, numbers, verbose=0).history


class Column:
    """A column or a table of pandas or polars, as far as it is looked at."""

    def __init__(self, *values):
        self._values = np.array(values, object)

    def __array__(self, dtype=None, copy=None):
        return self._values

    def __len__(self):
        return len(self._values)


@pytest.mark.slow
def test_columns_of_tables(backbone, tokenizer):
    preprocessor = TextClassifierPreprocessor(tokenizer, 16)
    classifier = TextClassifier(backbone, 2, preprocessor, labels=["bad", "good"])
    classifier.compile()
    texts, labels = ["a river", "the boat", "the clock", "a house"], ["bad", "good", "good", "bad"]
    expected = classifier.predict(texts, verbose=0)
    np.testing.assert_array_equal(classifier.predict(Column(*texts), verbose=0), expected)
    values = classifier.evaluate(texts, labels, verbose=0)
    assert classifier.evaluate(Column(*texts), Column(*labels), verbose=0) == values
    held_out = (Column(*texts), Column(*labels))
    history = classifier.fit(Column(*texts), Column(*labels), validation_data=held_out, verbose=0)
    assert np.isfinite(history.history["val_loss"]).all()
    classifier.fit(Column(*texts), Column(0, 1, 1, 0), validation_split=0.5, verbose=0)
    pairs = Column(*([text, text[::-1]] for text in texts))
    columns = (texts, [text[::-1] for text in texts])
    np.testing.assert_array_equal(
        classifier.predict(pairs, verbose=0), classifier.predict(columns, verbose=0)
    )
    with pytest.raises(ValueError, match=r"A column must hold only texts\. Received: nan at index 1"):
        classifier.fit(Column("a river", float("nan")), Column("bad", "good"))
    with pytest.raises(ValueError, match="`x` must be a column of texts, or two for pairs"):
        classifier.predict(Column(["a", "b", "c"]))
    assert classifier.predict(Column(), verbose=0).shape == (0, 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pooling": "max"}, "`pooling` must be 'mean', which the head in task.weights.h5 was trained with"),
        ({"pooling": "layers"}, "unless num_classes=N asks for a new head. Received: pooling='layers'"),
        ({"ngram_buckets": 64}, "`ngram_buckets` must be 0, .*Received: ngram_buckets=64"),
    ],
)
def test_a_saved_head_keeps_what_it_was_trained_with(backbone, tokenizer, tmp_path, given, message):
    """Even where another pooling has as many numbers, and its weights would be loaded without an error."""
    preset = str(tmp_path / "preset")
    TextClassifier(
        backbone, 2, TextClassifierPreprocessor(tokenizer, 16), pooling="mean", labels=["bad", "good"]
    ).save_to_preset(preset)
    with pytest.raises(ValueError, match=message) as error:
        TextClassifier.from_preset(preset, **given)
    assert "\n" not in str(error.value)
    assert TextClassifier.from_preset(preset, pooling="mean").labels == ["bad", "good"]
    new = TextClassifier.from_preset(preset, num_classes=2, **given)
    assert {name: getattr(new, name) for name in given} == given
    assert new.labels is None


def test_a_new_head_of_several_labels_has_no_old_names(backbone, tokenizer, tmp_path):
    preset = str(tmp_path / "preset")
    tagger = MultiLabelClassifier(
        backbone, 2, TextClassifierPreprocessor(tokenizer, 16), labels=["bad", "good"]
    )
    tagger.save_to_preset(preset)
    assert MultiLabelClassifier.from_preset(preset).labels == ["bad", "good"]
    new = MultiLabelClassifier.from_preset(preset, num_classes=3)
    assert (new.num_classes, new.labels) == (3, None)
