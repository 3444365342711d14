"""Losses against NumPy, encoder use, and what may not be combined."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp import objectives
from convnlp.models import Seq2SeqBackbone

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
    mask = np.arange(target_length) < random.integers(2, target_length + 1, [size, 1])
    ids = {
        "encoder_token_ids": random.integers(3, 50, [size, length]),
        "decoder_token_ids": random.integers(3, 50, [size, target_length]),
        "target_token_ids": random.integers(3, 50, [size, target_length]),
        "masked_token_ids": random.integers(3, 50, [size, length]),
        "masked_positions": np.tile([1, 4], [size, 1]),
        "masked_targets": random.integers(3, 50, [size, 2]),
    }
    masks = {"encoder_padding_mask": np.ones([size, length], bool), "decoder_padding_mask": mask}
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
    encoded = model.encode(data["encoder_token_ids"])
    return model.logits(model.decode(data["decoder_token_ids"], encoded)).numpy()


def test_text_to_text_loss_is_the_cross_entropy_of_the_targets_that_are_no_padding():
    model, data = backbone(), batch()
    mask = data["decoder_padding_mask"].numpy()
    result = objectives.text_to_text_loss(model)(data, SEED, training=False)
    logits = logits_of(model, data)
    np.testing.assert_allclose(
        result["loss_sum"], nats(logits, data["target_token_ids"].numpy(), mask), rtol=1e-5
    )
    assert result["weight"] == mask.sum()
    hits = (logits.argmax(-1) == data["target_token_ids"].numpy())[mask].sum()
    assert result["token_accuracy"] == (hits, mask.sum())


def test_masked_lm_predicts_the_masked_positions_with_the_tied_embedding():
    model, data = backbone(), batch()
    result = objectives.pretraining_loss(model, ("masked_lm",))(data, SEED, training=False)
    logits = model.logits(model.encode(data["masked_token_ids"])).numpy()[:, [1, 4]]
    expected = nats(logits, data["masked_targets"].numpy(), np.ones([4, 2], bool))
    np.testing.assert_allclose(result["masked_lm"][0], expected, rtol=1e-5)
    np.testing.assert_allclose(result["loss_sum"] / result["weight"], expected / 8, rtol=1e-5)


def test_both_objectives_are_summed_by_their_means():
    model, data = backbone(), batch()
    both = objectives.pretraining_loss(model, ("span_corruption", "masked_lm"), 0.5)(
        data, SEED, training=False
    )
    means = [float(both[name][0] / both[name][1]) for name in ("span_corruption", "masked_lm")]
    np.testing.assert_allclose(both["loss_sum"] / both["weight"], means[0] + 0.5 * means[1], rtol=1e-5)


def test_encoder_use_is_the_cost_of_another_examples_encoder_output():
    model, data = backbone(), batch()
    result = objectives.pretraining_loss(model)(data, SEED, training=False)
    other = {**data, "encoder_token_ids": tf.roll(data["encoder_token_ids"], 1, axis=0)}
    targets, mask = data["target_token_ids"].numpy(), data["decoder_padding_mask"].numpy()
    expected = nats(logits_of(model, other), targets, mask) - nats(logits_of(model, data), targets, mask)
    np.testing.assert_allclose(result["encoder_use"][0], expected, rtol=1e-3, atol=1e-3)
    assert "encoder_use" not in objectives.pretraining_loss(model)(data, SEED, training=True)


def test_encoder_use_of_a_decoder_that_ignores_its_encoder_is_zero():
    model = backbone()
    projection = model.decoder.layers[0].cross_attention.output_projection
    projection.kernel.assign(tf.zeros_like(projection.kernel))
    result = objectives.pretraining_loss(model)(batch(), SEED, training=False)
    assert result["encoder_use"][0] == 0


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
    result = objectives.classification_loss(Classifier())(data, SEED)
    np.testing.assert_allclose(result["loss_sum"], np.log(1 + np.exp(-2)) + np.log(1 + np.exp(5)), rtol=1e-5)
    assert result["weight"] == 2
    assert result["accuracy"] == (1, 2)


def test_dropout_follows_the_seed():
    loss = objectives.text_to_text_loss(backbone(dropout=0.5))
    first, again, other = (float(loss(batch(), tf.constant([1, n]))["loss_sum"]) for n in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, {"objectives": ()}, "objectives"),
        ({}, {"objectives": ("denoising",)}, "denoising"),
        ({}, {"masked_lm_weight": 0.0}, "masked_lm_weight.*0.0"),
        ({"num_decoder_layers": 0}, {}, "decoder"),
    ],
)
def test_what_cannot_be_trained_is_refused(changes, arguments, message):
    with pytest.raises(ValueError, match=message):
        objectives.pretraining_loss(backbone(**changes), **arguments)


def test_prefix_lm_predicts_the_tokens_behind_the_prefix_from_what_is_before_them():
    model = backbone(num_decoder_layers=0, mixer="self_attention")
    ids = np.random.default_rng(0).integers(3, 50, [2, 7]).astype("int32")
    prefix = np.tile(np.arange(7) < 3, [2, 1])
    data = {"prefix_lm_token_ids": tf.constant(ids), "prefix_mask": tf.constant(prefix)}
    result = objectives.pretraining_loss(model, ["prefix_lm"])(data, SEED, training=False)
    total = 0.0
    for i in range(3, 7):  # all of the row up to token i is one prefix's worth of the past
        seen = model.encode(ids[:, :i], prefix_mask=prefix[:, :i])
        last = model.logits(seen)[:, -1].numpy()
        total += nats(last, ids[:, i], np.ones(2, bool))
    np.testing.assert_allclose(result["prefix_lm"][0], total, rtol=1e-5)
    assert result["prefix_lm"][1] == 8
    np.testing.assert_allclose(result["loss_sum"], total / 8 * 2, rtol=1e-5)  # two examples


def test_prefix_lm_refuses_a_mixer_that_leaks():
    model = backbone(num_decoder_layers=0, mixer="mb_conv")
    with pytest.raises(ValueError, match=r"prefix_lm needs mixers with supports_prefix.*Received: mb_conv"):
        objectives.pretraining_loss(model, ["prefix_lm"])
