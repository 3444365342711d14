"""A model without an encoder: the source is the prefix of the decoder's own row."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp.models import Seq2SeqBackbone, Seq2SeqLM, TextClassifier
from convnlp.objectives import build_objectives
from convnlp.tasks.text_to_text import text_to_text_loss

SMALL = {
    "vocabulary_size": 50,
    "num_layers": 0,
    "num_decoder_layers": 2,
    "num_heads": 2,
    "hidden_dim": 16,
    "intermediate_dim": 32,
    "kernel_size": [5, 9],
    "dropout": 0.0,
}
IDS = np.random.default_rng(0).integers(3, 50, [2, 6])
MASK = np.arange(6) < np.array([[6], [4]])
DECODER_IDS = np.random.default_rng(1).integers(3, 50, [2, 5])
REORDERED = 2e-6  # float32 sums in another order, or over another number of zeros
mixers = pytest.mark.parametrize("mixer", ["dynamic_conv", "self_attention"])


def decoded(backbone, ids=IDS, mask=MASK, decoder_ids=DECODER_IDS):
    return backbone.decode(decoder_ids, backbone.encode(ids, mask), mask).numpy()


@mixers
def test_the_parts_are_the_functional_model_and_the_steps(mixer):
    backbone = Seq2SeqBackbone(**SMALL, mixer=mixer)
    whole = backbone(
        {
            "encoder_token_ids": IDS,
            "encoder_padding_mask": MASK,
            "decoder_token_ids": DECODER_IDS,
            "decoder_padding_mask": np.ones_like(DECODER_IDS),
        }
    )["decoder_sequence_output"]
    expected = decoded(backbone)
    np.testing.assert_allclose(whole, expected, atol=REORDERED)
    state, parts = backbone.init_decoder_state(backbone.encode(IDS, MASK), MASK, max_length=7), []
    elements = sum(np.prod(value.shape[1:]) for name, value in state.items() if name in ("source", "inputs"))
    assert elements == backbone.cost(6, 7)["state_elements"]
    for start, end in ((0, 1), (1, 3), (3, 5)):
        part, state = backbone.decode_step(DECODER_IDS[:, start:end], state, start)
        parts.append(part)
    np.testing.assert_allclose(np.concatenate(parts, 1), expected, atol=REORDERED)
    assert backbone.cost(6, 5)["parameters"] == backbone.count_params()


@mixers
def test_a_target_sees_its_source_and_its_past_whatever_the_padding(mixer):
    backbone = Seq2SeqBackbone(**SMALL, mixer=mixer)
    expected = decoded(backbone)
    longer = np.pad(np.where(MASK, IDS, 7), [[0, 0], [0, 3]], constant_values=8)
    padded = decoded(backbone, longer, np.pad(MASK, [[0, 0], [0, 3]]))
    np.testing.assert_allclose(padded, expected, atol=REORDERED)
    later = DECODER_IDS.copy()
    later[:, 3] = 3 + later[:, 3] % 40
    changed = decoded(backbone, decoder_ids=later) - expected
    np.testing.assert_array_equal(changed[:, :3], 0)
    assert np.abs(changed[:, 3]).min() > 0
    source = IDS.copy()
    source[:, 3] = 3 + source[:, 3] % 40  # the last token of the shorter source
    assert np.abs(decoded(backbone, source) - expected).max(-1)[1, 0] > 0


@pytest.mark.slow
def test_it_trains_and_generates_like_any_other():
    """The copy of a token: the loss of the programs, and their greedy decoding against a plain loop."""
    keras.utils.set_random_seed(0)
    backbone = Seq2SeqBackbone(**{**SMALL, "vocabulary_size": 8, "num_decoder_layers": 1, "kernel_size": 5})
    lm, optimizer = Seq2SeqLM(backbone), keras.optimizers.Adam(1e-2)
    sources = np.array([[3, 1], [4, 1], [5, 1], [6, 1]], "int32")
    batch = {
        "encoder_token_ids": tf.constant(sources),
        "encoder_padding_mask": tf.ones([4, 2], tf.bool),
        "decoder_token_ids": tf.constant(np.pad(sources[:, :1], [[0, 0], [1, 0]])),
        "decoder_padding_mask": tf.ones([4, 2], tf.bool),
        "target_token_ids": tf.constant(sources),
    }
    loss_fn = text_to_text_loss(backbone)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = loss_fn(batch, tf.constant([0, 1]))["loss_sum"]
        optimizer.apply(tape.gradient(loss, backbone.trainable_variables), backbone.trainable_variables)
        return loss

    for _ in range(60):
        loss = step()
    assert float(loss) < 0.5
    generated = lm.generate_ids(batch["encoder_token_ids"], batch["encoder_padding_mask"], max_length=3)
    np.testing.assert_array_equal(generated, np.pad(sources, [[0, 0], [0, 1]]))
    prompt = {
        "decoder_token_ids": tf.zeros([4, 3], tf.int32),
        "decoder_padding_mask": tf.constant([[True, False, False]] * 4),
    }
    sampled = lm.make_generate_function()({**batch, **prompt}, stop_token_ids=[1])["decoder_token_ids"]
    np.testing.assert_array_equal(sampled, np.pad(sources, [[0, 0], [1, 0]]))


def test_its_stack_becomes_an_encoder():
    backbone = Seq2SeqBackbone(**SMALL, decoder_mixer=["lightweight_conv", "self_attention"])
    encoder = backbone.encoder_only()
    assert (encoder.num_layers, encoder.decoder) == (2, None)
    for ours, theirs in zip(encoder.encoder.weights, backbone.decoder.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert backbone.reading_stack is backbone.decoder
    kept = [np.asarray(model.read(IDS, MASK))[MASK] for model in (backbone, encoder)]
    np.testing.assert_allclose(kept[0], kept[1], atol=REORDERED)
    np.testing.assert_array_equal(kept[1], np.asarray(encoder.encode(IDS, MASK))[MASK])
    classifier = TextClassifier(backbone, 3)
    assert classifier({"token_ids": IDS, "padding_mask": MASK}).shape == (2, 3)


@pytest.mark.parametrize("pool_size", [2, []])
def test_sizes_of_an_encoder_that_is_not_there_stay_out_of_its_stack(pool_size):
    backbone = Seq2SeqBackbone(**SMALL, pool_size=pool_size)
    np.testing.assert_allclose(
        np.asarray(backbone.encoder_only().encode(IDS, MASK))[MASK],
        np.asarray(backbone.read(IDS, MASK))[MASK],
        atol=REORDERED,
    )


def test_what_it_cannot_do_is_refused():
    backbone = Seq2SeqBackbone(**SMALL)
    segments = np.ones_like(DECODER_IDS)
    with pytest.raises(ValueError, match="`segment_ids` must be None: a model without an encoder"):
        backbone.decode(
            DECODER_IDS, backbone.encode(IDS), segment_ids=segments, encoder_segment_ids=np.ones_like(IDS)
        )
    with pytest.raises(ValueError, match=r"`mixer` must have supports_prefix.*'mb_conv'.*num_layers=0"):
        Seq2SeqBackbone(**SMALL, mixer="mb_conv")
    with pytest.raises(ValueError, match=r"masked_lm trains an encoder.*num_layers=0"):
        build_objectives(["masked_lm"], 8)[0].check(backbone)
    with pytest.raises(ValueError, match="must not both be 0"):
        Seq2SeqBackbone(**{**SMALL, "num_decoder_layers": 0})
