"""Losses against NumPy, encoder use, and what may not be combined."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp import tasks
from convnlp.configs import common
from convnlp.data import Label, Source
from convnlp.data.examples import Examples
from convnlp.models import Seq2SeqBackbone, TextClassifier, Tokenizer
from convnlp.tasks import Classification
from convnlp.tasks.classification import classification_loss, ngrams
from convnlp.tasks.text_to_text import text_to_text_loss
from convnlp.testing import task_checks
from tests import corpus
from tests.task_table import TASK_TABLE

SIZE = {
    "vocabulary_size": 50,
    "num_layers": 1,
    "num_heads": 2,
    "hidden_dim": 16,
    "intermediate_dim": 32,
    "kernel_size": 3,
}
SEED = tf.constant([1, 2])


def backbone(**changes):
    return Seq2SeqBackbone(**{**SIZE, **changes})


def batch(size=4, length=6, target_length=5, seed=0):
    random = np.random.default_rng(seed)
    encoder_mask = np.arange(length) < np.linspace(length, 2, size, dtype=int)[:, None]
    mask = np.arange(target_length) < random.integers(2, target_length + 1, [size, 1])
    ids = {
        "encoder_token_ids": random.integers(3, 50, [size, length]),
        "decoder_token_ids": random.integers(3, 50, [size, target_length]),
        "target_token_ids": random.integers(3, 50, [size, target_length]),
        "masked_token_ids": random.integers(3, 50, [size, length]),
        "masked_positions": np.tile([1, 4], [size, 1]),
        "masked_targets": random.integers(3, 50, [size, 2]),
    }
    masks = {"encoder_padding_mask": encoder_mask, "decoder_padding_mask": mask}
    return {
        **{k: tf.constant(v, tf.int32) for k, v in ids.items()},
        **{k: tf.constant(v) for k, v in masks.items()},
    }


def nats(logits, targets, mask):
    """Cross-entropy by a loop over the positions that count."""
    total = 0.0
    for row, target, counts in zip(logits.reshape(-1, 50), targets.ravel(), mask.ravel(), strict=True):
        if counts:
            total -= row[target] - np.log(np.exp(row).sum())
    return total


def logits_of(model, data):
    mask = data["encoder_padding_mask"]
    encoded = model.encode(data["encoder_token_ids"], padding_mask=mask)
    return model.logits(model.decode(data["decoder_token_ids"], encoded, encoder_padding_mask=mask)).numpy()


def test_text_to_text_loss_is_the_cross_entropy_of_the_targets_that_are_no_padding():
    model, data = backbone(), batch()
    mask = data["decoder_padding_mask"].numpy()
    result = text_to_text_loss(model)(data, SEED, training=False)
    logits = logits_of(model, data)
    np.testing.assert_allclose(
        result["loss_sum"], nats(logits, data["target_token_ids"].numpy(), mask), rtol=1e-5
    )
    assert result["weight"] == mask.sum()
    hits = (logits.argmax(-1) == data["target_token_ids"].numpy())[mask].sum()
    assert result["token_accuracy"] == (hits, mask.sum())


def test_examples_packed_into_a_row_are_learned_as_in_rows_of_their_own():
    model, random = backbone(), np.random.default_rng(0)
    sizes = ((3, 2), (4, 3), (2, 4))  # of sources and targets
    sides = {"encoder_token_ids": 0, "decoder_token_ids": 1, "target_token_ids": 1}
    rows = [{n: random.integers(3, 50, [1, size[side]]) for n, side in sides.items()} for size in sizes]
    packed = {
        name: np.concatenate([row[name] for row in rows] + [np.zeros([1, 2], int)], 1) for name in sides
    }

    def loss(data, segments):
        masks = {f"{name}_padding_mask": ids > 0 for name, ids in segments.items()}
        segments = {f"{name}_segment_ids": ids for name, ids in segments.items()}
        data = {name: tf.constant(values, tf.int32) for name, values in (data | segments).items()}
        result = text_to_text_loss(model)(data | masks, SEED, training=False)
        return float(result["loss_sum"]), float(result["weight"])

    def numbered(side):
        return np.array([[n + 1 for n, size in enumerate(sizes) for _ in range(size[side])] + [0, 0]])

    found = loss(packed, {"encoder": numbered(0), "decoder": numbered(1)})
    alone = [
        loss(row, {name: np.ones_like(row[f"{name}_token_ids"]) for name in ("encoder", "decoder")})
        for row in rows
    ]
    np.testing.assert_allclose(found, np.sum(alone, 0), rtol=1e-5)
    assert found[1] == 9


def test_examples_of_weight_zero_do_not_count_in_classification():
    class Classifier:
        def __call__(self, inputs, training):
            return tf.constant([[2.0, 0.0], [0.0, 5.0], [9.0, 0.0]])

    data = {
        "token_ids": None,
        "padding_mask": None,
        "label": tf.constant([0, 0, 1]),
        "weight": tf.constant([1.0, 1, 0]),
    }
    result = classification_loss(Classifier())(data, SEED)
    np.testing.assert_allclose(result["loss_sum"], np.log(1 + np.exp(-2)) + np.log(1 + np.exp(5)), rtol=1e-5)
    assert result["weight"] == 2
    assert result["accuracy"] == (1, 2)


def log_softmax(row):
    return row - np.log(np.exp(row).sum())


def classifier_with_dropout(dropout=0.5):
    encoder = backbone(dropout=dropout, num_decoder_layers=0)
    return TextClassifier(encoder, num_classes=3, dropout=dropout)


def labelled_batch(size=4, length=6):
    random = np.random.default_rng(1)
    return {
        "token_ids": tf.constant(random.integers(3, 50, [size, length]), tf.int32),
        "padding_mask": tf.constant(np.arange(length) < random.integers(2, length + 1, [size, 1])),
        "label": tf.constant(random.integers(0, 3, size), tf.int32),
        "weight": tf.constant([1.0] * (size - 1) + [0.0]),
    }


def test_r_drop_is_the_divergence_of_two_passes_beside_their_cross_entropy():
    classifier, data, r_drop = classifier_with_dropout(), labelled_batch(), 0.7
    seen = []

    def watched(inputs, training):
        seen.append(classifier(inputs, training=training))
        return seen[-1]

    result = classification_loss(watched, r_drop)(data, SEED)
    (logits,) = seen
    first, second = np.split(logits.numpy().astype("float64"), 2)
    assert abs(first - second).max() > 1e-3
    expected, hits = 0.0, 0.0
    for one, other, label in list(zip(first, second, data["label"].numpy(), strict=True))[:3]:
        one, other = log_softmax(one), log_softmax(other)
        divergence = sum(np.exp(a) * (a - b) + np.exp(b) * (b - a) for a, b in zip(one, other, strict=True))
        expected += -(one[label] + other[label]) / 2 + r_drop * divergence / 4
        hits += sum(float(each.argmax() == label) for each in (one, other)) / 2
    np.testing.assert_allclose(result["loss_sum"], expected, rtol=1e-5)
    assert result["weight"] == 3
    assert result["accuracy"] == (hits, 3)


def test_soft_labels_are_three_quarters_of_the_target_in_training():
    classifier, data = classifier_with_dropout(), labelled_batch()
    soft = np.random.default_rng(2).dirichlet([1.0] * 3, 4).astype("float32")
    taught = {**data, "soft_label": tf.constant(soft)}
    logits = classifier({name: data[name] for name in ("token_ids", "padding_mask")}, training=False).numpy()

    def quiet(inputs, training):
        return classifier(inputs, training=False)

    expected = 0.0
    for row, label, probabilities in list(zip(logits, data["label"].numpy(), soft, strict=True))[:3]:
        target = 0.25 * np.eye(3)[label] + 0.75 * probabilities
        expected -= target @ log_softmax(row.astype("float64"))
    result = classification_loss(quiet)(taught, SEED)
    np.testing.assert_allclose(result["loss_sum"], expected, rtol=1e-5)
    assert result["weight"] == 3
    plain, evaluated = (classification_loss(quiet)(each, None, training=False) for each in (data, taught))
    assert evaluated["loss_sum"] == plain["loss_sum"]
    twice = classification_loss(quiet, r_drop=1.0)(taught, SEED)
    np.testing.assert_allclose(twice["loss_sum"], expected, rtol=1e-5)  # both passes are the same here


def test_r_drop_without_dropout_is_the_plain_loss_and_it_has_no_part_in_evaluation():
    data = labelled_batch()
    plain = classifier_with_dropout(0.0)
    np.testing.assert_allclose(
        classification_loss(plain, 5.0)(data, SEED)["loss_sum"],
        classification_loss(plain)(data, SEED)["loss_sum"],
        rtol=1e-5,
    )
    noisy = classifier_with_dropout()
    losses = [classification_loss(noisy, r_drop)(data, None, training=False) for r_drop in (0.0, 5.0)]
    assert float(losses[0]["loss_sum"]) == float(losses[1]["loss_sum"])


def test_r_drop_is_an_option_of_the_task():
    classifier, data, label = classifier_with_dropout(), labelled_batch(), Label("label", names=tuple("abc"))
    task = Classification(tokenizer=None, label=label, sequence_length=6, r_drop=3.0)
    expected = classification_loss(classifier, 3.0)(data, SEED)["loss_sum"]
    assert task.loss(classifier)(data, SEED)["loss_sum"] == expected


def test_r_drop_brings_the_passes_together():
    """Its gradient, that of the labels taken away."""
    classifier, data = classifier_with_dropout(), labelled_batch()

    def loss(r_drop):
        return classification_loss(classifier, r_drop)(data, SEED)["loss_sum"]

    def divergence():
        return float(loss(2.0) - loss(1.0))

    optimizer = keras.optimizers.SGD(0.5)
    before = divergence()
    for _ in range(5):
        with tf.GradientTape() as tape:
            value = loss(2.0) - loss(1.0)
        optimizer.apply(tape.gradient(value, classifier.trainable_variables), classifier.trainable_variables)
    assert 0 < divergence() < before


def test_dropout_follows_the_seed():
    loss = text_to_text_loss(backbone(dropout=0.5))
    first, again, other = (float(loss(batch(), tf.constant([1, n]))["loss_sum"]) for n in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("name", TASK_TABLE)
def test_every_task_drops_units_by_the_seed_and_in_training_alone(name):
    case = task_checks(name, Tokenizer(corpus.tiny_proto()), **TASK_TABLE[name])[0].case
    layers = {"num_decoder_layers": int(case.task.decoder_length > 0), "dropout": 0.5}
    model = case.task.model(Seq2SeqBackbone(case.tokenizer.vocabulary_size(), 1, 2, 8, 16, **layers))
    data, loss = next(iter(case.task.batches(case.found, 4))), case.task.loss(model)
    first, again, other = (float(loss(data, tf.constant([1, n]))["loss_sum"]) for n in (1, 1, 2))
    assert first == again != other
    whole = [float(loss(data, tf.constant([1, n]), training=False)["loss_sum"]) for n in (1, 2)]
    assert whole[0] == whole[1] not in (first, other)


def test_a_weight_of_no_class_is_refused_before_anything_is_read(tmp_path):
    rows = [{"text": "x", "label": label} for label in ("bad", "good")]
    source = Source(f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', rows)}")
    config = common.get_config()
    config.data.input_length = 8
    config.task.options.class_weights = {"bad": 2, "ugly": 5}
    with pytest.raises(ValueError, match=r"`class_weights` must name classes, of .*Received: 'ugly'"):
        tasks.build_task(config, Tokenizer(corpus.tiny_proto()), source)


def test_held_out_examples_that_are_learned_from_have_the_weights_of_their_classes(monkeypatch):
    given = []
    monkeypatch.setattr(ngrams, "takes", lambda model: True)
    monkeypatch.setattr(ngrams, "join", lambda *arguments: given.append(arguments))
    label = Label("label", names=("bad", "good"))
    task = Classification(tokenizer=None, label=label, sequence_length=8, class_weights={"good": 3})
    found, held_out = (
        Examples((tf.ragged.constant([[5, 1]] * len(labels)),), (8,), np.array(labels))
        for labels in ([0, 1], [1, 1, 0])
    )
    found = task.for_training(found)
    task.trained("model", found, held_out, learns=True)
    ((model, num_buckets, trained_on, held_out, learns),) = given
    assert (model, num_buckets, learns) == ("model", 2**16, True)
    assert trained_on is found
    assert [each.weights.tolist() for each in (found, held_out)] == [[1.0, 3.0], [3.0, 3.0, 1.0]]


def test_the_weights_of_classes_hold_in_training_alone(tmp_path):
    rows = [{"text": "x", "label": label} for label in ("bad", "good", "good", "good")]
    source = Source(f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', rows)}")

    def weights(given, training=True):
        config = common.get_config()
        config.data.input_length = 8
        config.task.options.class_weights = given
        task = tasks.build_task(config, Tokenizer(corpus.tiny_proto()), source)
        found = task.read(source)
        batch = next(
            iter(task.batches(task.for_training(found) if training else found, 4, training=training))
        )
        found = dict(zip(batch["label"].numpy(), batch["weight"].numpy(), strict=True))
        return found[0], found[1]

    assert weights("balanced") == (2.0, np.float32(2 / 3))
    assert weights({"bad": 5}) == (5.0, 1.0)
    assert weights(None) == weights("balanced", training=False) == (1.0, 1.0)
    for wrong in ("even", {"bad": 0}, 3):
        with pytest.raises(ValueError, match="`class_weights` of classification must be None, 'balanced'"):
            weights(wrong)
