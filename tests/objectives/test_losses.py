"""The objectives' losses against NumPy, encoder use, and what may not be combined."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp import losses, pretrain
from convnlp.configs import common
from convnlp.objectives import build_objectives, pretraining_loss
from convnlp.testing.objectives import LENGTH, ObjectiveCase, model_of
from tests.objective_table import OBJECTIVE_TABLE
from tests.tasks.test_losses import backbone, batch, logits_of, nats

SEED = tf.constant([1, 2])
BOTH = ("span_corruption", "masked_lm")


def loss_of(model, name):
    return pretraining_loss(model, build_objectives([name], 8))


def test_masked_lm_predicts_the_masked_positions_with_the_tied_embedding():
    model, data = backbone(), batch()
    result = loss_of(model, "masked_lm")(data, SEED, training=False)
    logits = model.logits(model.encode(data["masked_token_ids"])).numpy()[:, [1, 4]]
    expected = nats(logits, data["masked_targets"].numpy(), np.ones([4, 2], bool))
    np.testing.assert_allclose(result["masked_lm"][0], expected, rtol=1e-5)
    np.testing.assert_allclose(result["loss_sum"] / result["weight"], expected / 8, rtol=1e-5)


def test_the_seed_drives_dropout():
    loss_fn = loss_of(backbone(dropout=0.5), "masked_lm")
    one, same, other = (float(loss_fn(batch(), tf.constant([1, n]))["loss_sum"]) for n in (1, 1, 2))
    assert one == same != other


def test_both_objectives_are_summed_by_their_means():
    model, data = backbone(), batch()
    both = pretraining_loss(model, build_objectives(BOTH, 8, {"masked_lm": {"weight": 0.5}}))(
        data, SEED, training=False
    )
    means = [float(both[name][0] / both[name][1]) for name in BOTH]
    np.testing.assert_allclose(both["loss_sum"] / both["weight"], means[0] + 0.5 * means[1], rtol=1e-5)


def test_encoder_use_is_the_cost_of_another_examples_encoder_output():
    model, data = backbone(), batch()
    result = loss_of(model, "span_corruption")(data, SEED, training=False)
    names = ("encoder_token_ids", "encoder_padding_mask")
    other = data | {name: tf.roll(data[name], 1, axis=0) for name in names}
    targets, mask = data["target_token_ids"].numpy(), data["decoder_padding_mask"].numpy()
    expected = nats(logits_of(model, other), targets, mask) - nats(logits_of(model, data), targets, mask)
    np.testing.assert_allclose(result["encoder_use"][0], expected, rtol=1e-3, atol=1e-3)
    assert "encoder_use" not in loss_of(model, "span_corruption")(data, SEED, training=True)


def test_encoder_use_of_a_decoder_that_ignores_its_encoder_is_zero():
    model = backbone()
    projection = model.decoder.layers[0].cross_attention.output_projection
    projection.kernel.assign(tf.zeros_like(projection.kernel))
    result = loss_of(model, "span_corruption")(batch(), SEED, training=False)
    assert result["encoder_use"][0] == 0


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        ((), {}, r"`objective.names` must be one or more of span_corruption, .*Received: \(\)"),
        (["denoising"], {}, r"`objective.names` must .*Received: \('denoising',\)"),
        (
            ["masked_lm"],
            {"weight": 0.0},
            r"`weight` of masked_lm must be .* in \(0, inf\). .*weight=0.0",
        ),
        (
            ["masked_lm", "masked_lm"],
            {},
            r"^`objective.names` must name each objective once. Received: \(.*\)$",
        ),
        (["masked_lm"], {"weight": "heavy"}, r"`weight` of masked_lm must be a number .*weight='heavy'"),
        (["masked_lm"], {"noise_densty": 0.1}, "no option `noise_densty`.*did you mean noise_density?"),
        (
            ["masked_lm"],
            {"noise_density": 1.5},
            r"`noise_density` of masked_lm must be .* in \(0, 1\)..*=1.5",
        ),
        (["prefix_lm"], {"input_length": 1}, "`input_length` of prefix_lm must be an integer >= 2"),
    ],
)
def test_what_does_not_exist_or_fit_is_refused(names, options, message):
    with pytest.raises(ValueError, match=message):
        build_objectives(names, 8, {names[0]: options} if names else None)


def test_options_of_an_objective_that_is_not_trained_are_refused():
    with pytest.raises(ValueError, match=r"`objective.options` must name .*masked_lm. Received: prefix_lm"):
        build_objectives(["masked_lm"], 8, {"prefix_lm": {}})


@pytest.mark.parametrize(
    "options", [{"noise_density": 0.3}, {"masked_lm": 0.3}, {"masked_lm": "no"}], ids=str
)
def test_options_of_no_objective_are_refused_in_a_config(options):
    config = common.get_config()
    config.objective.names = ("masked_lm",)
    for name, value in options.items():
        config.objective.options[name] = value
    with pytest.raises(ValueError, match=r"`objective.options[\w.]*` must .*masked_lm"):
        pretrain.objectives_of(config)


def test_shared_options_yield_to_own_ones():
    built = build_objectives(BOTH, 64, {"masked_lm": {"noise_density": 0.4}}, noise_density=0.2)
    assert [objective.noise_density for objective in built] == [0.2, 0.4]
    assert [objective.name for objective in build_objectives(BOTH[::-1], 64)] == list(BOTH)


def test_prefix_lm_predicts_the_tokens_behind_the_prefix_from_what_is_before_them():
    # In a second layer it matters what those in the prefix have seen.
    model = backbone(num_layers=2, num_decoder_layers=0, mixer="self_attention")
    ids = np.random.default_rng(0).integers(3, 50, [2, 7]).astype("int32")
    prefix = np.tile(np.arange(7) < 3, [2, 1])
    data = {"prefix_lm_token_ids": tf.constant(ids), "prefix_mask": tf.constant(prefix)}
    result = loss_of(model, "prefix_lm")(data, SEED, training=False)
    total = 0.0
    for i in range(3, 7):  # all of the row up to token i is one prefix's worth of the past
        seen = model.encode(ids[:, :i], prefix_mask=prefix[:, :i])
        last = model.logits(seen)[:, -1].numpy()
        total += nats(last, ids[:, i], np.ones(2, bool))
    np.testing.assert_allclose(result["prefix_lm"][0], total, rtol=1e-5)
    assert result["prefix_lm"][1] == 8
    np.testing.assert_allclose(result["loss_sum"], total / 8 * 2, rtol=1e-5)  # two examples


@pytest.mark.parametrize("mixer", ["self_attention", "dynamic_conv"])
def test_prefix_lm_trains_a_decoder_alone_on_the_rows_that_it_decodes(mixer):
    """By the source with its end token and the target behind the start token, each row with its own cut."""
    model = backbone(num_layers=0, num_decoder_layers=2, mixer=mixer)
    ids = np.random.default_rng(0).integers(3, 50, [3, 7]).astype("int32")
    lengths = [1, 4, 6]
    prefix = np.arange(7) < np.array(lengths)[:, np.newaxis]
    data = {"prefix_lm_token_ids": tf.constant(ids), "prefix_mask": tf.constant(prefix)}
    result = loss_of(model, "prefix_lm")(data, SEED, training=False)
    total = 0.0
    for row, length in zip(ids, lengths, strict=True):
        source, target = np.append(row[:length], 1), row[length:]
        decoder_ids = np.append([0], target[:-1]).astype("int32")
        hidden = model.decode(decoder_ids[np.newaxis], model.encode(source[np.newaxis].astype("int32")))
        total += nats(model.logits(hidden).numpy(), target[np.newaxis], np.ones([1, len(target)], bool))
    np.testing.assert_allclose(result["prefix_lm"][0], total, rtol=1e-5)
    assert result["prefix_lm"][1] == 6 + 3 + 1


@pytest.mark.parametrize("name", OBJECTIVE_TABLE)
def test_logits_are_computed_for_the_share_of_tokens_that_is_stated(name, monkeypatch):
    counts, cross_entropy = [], losses.cross_entropy

    def counting(logits, targets, mask):
        counts.append(logits.shape[1])
        return cross_entropy(logits, targets, mask)

    monkeypatch.setattr(losses, "cross_entropy", counting)
    kind = OBJECTIVE_TABLE[name].get("backbone", "encoder alone")
    case = ObjectiveCase(name, (), kind)
    case.loss(model_of(kind))(case.examples(), training=True)
    stated = case.build().logits_per_token * LENGTH + case.build().target_length
    assert counts == [pytest.approx(stated, abs=1)]  # no token follows the last one of a prefix LM


KINDS = [(name, row.get("backbone", "encoder alone")) for name, row in OBJECTIVE_TABLE.items()]


@pytest.mark.parametrize(("name", "kind"), [*KINDS, ("prefix_lm", "decoder alone")])
def test_logits_keep_the_type_that_the_model_computes_in(name, kind, monkeypatch):
    """A copy of them in float32 would be the largest tensor of a step."""
    dtypes, cross_entropy = [], losses.cross_entropy

    def noting(logits, targets, mask):
        dtypes.append(logits.dtype)
        return cross_entropy(logits, targets, mask)

    monkeypatch.setattr(losses, "cross_entropy", noting)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = model_of(kind)
    finally:
        keras.config.set_dtype_policy("float32")
    case = ObjectiveCase(name, (), kind)
    case.loss(model)(case.examples(), training=True)
    assert dtypes == [tf.bfloat16]


def test_prefix_lm_refuses_a_mixer_that_leaks():
    model = backbone(num_decoder_layers=0, mixer="mb_conv")
    with pytest.raises(ValueError, match=r"prefix_lm needs mixers with supports_prefix.*Received: mb_conv"):
        loss_of(model, "prefix_lm")
