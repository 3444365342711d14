"""Positions for mixers that do not know the order of the tokens."""

import json

import numpy as np
import pytest
import tensorflow as tf

from convnlp.models import Seq2SeqBackbone
from convnlp.models.position_embedding import PositionEmbedding
from tests.tflite import converted, run

SMALL = {
    "vocabulary_size": 50,
    "num_layers": 2,
    "num_heads": 2,
    "hidden_dim": 16,
    "intermediate_dim": 32,
    "max_sequence_length": 12,
}
IDS = np.random.default_rng(0).integers(3, 50, [2, 6])
MASK = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]], bool)
DECODER_IDS = np.random.default_rng(1).integers(3, 50, [2, 5])
BLIND = {"encoder_mixer": "external_attention", "decoder_mixer": "dynamic_conv"}
DECODER_ONLY = {"num_layers": 0, "num_decoder_layers": 2}
kinds = pytest.mark.parametrize("kind", ["learned", "sinusoidal"])


def is_blind(backbone):
    """Whether another order of the tokens only permutes what the encoder gives."""
    order = np.random.default_rng(2).permutation(6)
    permuted, y = backbone.encode(IDS[:, order]).numpy(), backbone.encode(IDS).numpy()
    return np.abs(permuted - y[:, order]).max() < 1e-5


def test_a_mixer_that_does_not_know_the_order_gets_positions():
    assert not is_blind(Seq2SeqBackbone(**SMALL, **BLIND))
    assert is_blind(Seq2SeqBackbone(**SMALL, **BLIND, position_embedding="none"))


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({}, None),
        (BLIND, "sinusoidal"),
        ({"encoder_mixer": ["external_attention", "dynamic_conv"]}, None),  # the one tells the other
        ({"mixer": "synthesizer", "mixer_options": {"modes": "attention"}}, "sinusoidal"),
        ({"mixer": "synthesizer"}, None),
        ({**BLIND, "position_embedding": None}, None),
        ({"position_embedding": "learned"}, "learned"),
    ],
)
def test_what_auto_means(arguments, kind):
    assert Seq2SeqBackbone(**SMALL, **arguments).position_embedding == kind


@kinds
@pytest.mark.parametrize("arguments", [BLIND, DECODER_ONLY], ids=["encoder-decoder", "decoder-only"])
def test_functional_model_parts_and_steps_agree(arguments, kind):
    backbone = Seq2SeqBackbone(**{**SMALL, **arguments}, position_embedding=kind)
    outputs = backbone(
        {
            "encoder_token_ids": IDS,
            "encoder_padding_mask": MASK,
            "decoder_token_ids": DECODER_IDS,
            "decoder_padding_mask": np.ones_like(DECODER_IDS),
        }
    )
    encoded = backbone.encode(IDS, MASK)
    whole = backbone.decode(DECODER_IDS, encoded, MASK)
    np.testing.assert_allclose(outputs["decoder_sequence_output"], whole, atol=1e-6)
    state, parts = backbone.init_decoder_state(encoded, MASK, max_length=5), []
    for start in (0, 2, 4):
        part, state = backbone.decode_step(DECODER_IDS[:, start : start + 2], state, tf.constant(start))
        parts.append(part)
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, atol=2e-6)  # sums in another order
    assert backbone.cost(6, 5)["parameters"] == backbone.count_params()


def test_a_target_counts_on_behind_its_source():
    """In one row without an encoder: as far as they go, pads behind the source change nothing."""
    backbone = Seq2SeqBackbone(**{**SMALL, **DECODER_ONLY}, position_embedding="learned")
    row = backbone._embed(np.concatenate([IDS[:1, :4], DECODER_IDS[:1]], 1))
    mask = np.array([[True] * 4 + [False] * 2])
    behind = backbone._embed(DECODER_IDS[:1], start=backbone._target_start(mask))
    np.testing.assert_array_equal(behind, row[:, 4:])


@kinds
def test_packed_texts_count_from_their_own_start(kind):
    backbone = Seq2SeqBackbone(**SMALL, position_embedding=kind)
    packed = np.concatenate([IDS[:1], IDS[1:, :4], [[0, 0]]], 1)
    segments = np.array([[1] * 6 + [2] * 4 + [0] * 2])
    encoded = backbone.encode(packed, segment_ids=segments)
    np.testing.assert_allclose(encoded[:, :6], backbone.encode(IDS[:1]), atol=1e-5)
    np.testing.assert_allclose(encoded[:, 6:10], backbone.encode(IDS[1:, :4]), atol=1e-5)
    targets = np.concatenate([DECODER_IDS[:1], DECODER_IDS[1:, :3]], 1)
    decoded = backbone.decode(
        targets, encoded, segment_ids=np.array([[1] * 5 + [2] * 3]), encoder_segment_ids=segments
    )
    alone = backbone.decode(DECODER_IDS[1:, :3], backbone.encode(IDS[1:, :4]))
    np.testing.assert_allclose(decoded[:, 5:], alone, atol=1e-5)


def test_a_preset_from_before_there_were_positions_is_what_it_was(tmp_path):
    backbone = Seq2SeqBackbone(**SMALL, **BLIND, position_embedding="none")
    backbone.save_to_preset(str(tmp_path))
    config = json.loads((tmp_path / "config.json").read_text())
    del config["config"]["position_embedding"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "SHA256SUMS").unlink()
    again = Seq2SeqBackbone.from_preset(str(tmp_path))
    assert again.position_embedding is None
    np.testing.assert_array_equal(again.encode(IDS, MASK), backbone.encode(IDS, MASK))


@kinds
def test_a_preset_and_the_encoder_alone_keep_their_positions(kind, tmp_path):
    backbone = Seq2SeqBackbone(**SMALL, **BLIND, position_embedding=kind)
    expected = backbone.encode(IDS, MASK)
    np.testing.assert_array_equal(backbone.encoder_only().encode(IDS, MASK), expected)
    backbone.save_to_preset(str(tmp_path))
    again = Seq2SeqBackbone.from_preset(str(tmp_path))
    assert again.get_config() == backbone.get_config()
    np.testing.assert_array_equal(again.encode(IDS, MASK), expected)


@kinds
def test_positions_as_tflite(kind):
    layer = PositionEmbedding(kind, 16, 12)
    layer.build()
    interpreter = converted(lambda x: layer(x), tf.TensorSpec([None, None, 16]))
    for batch, time in ((1, 3), (2, 11)):
        x = np.random.default_rng(0).normal(size=[batch, time, 16]).astype("float32")
        np.testing.assert_allclose(run(interpreter, x), layer(x), atol=1e-5)


def test_sinusoids_are_the_equation():
    y = PositionEmbedding("sinusoidal", 6, 12)(tf.zeros([1, 9, 6]), start=3)[0]
    angles = np.arange(3, 12)[:, np.newaxis] / 10_000 ** (2 * np.arange(3) / 6)
    np.testing.assert_allclose(y, 0.25 * np.concatenate([np.sin(angles), np.cos(angles)], 1), atol=1e-6)


def test_a_learned_table_ends():
    backbone = Seq2SeqBackbone(**SMALL, position_embedding="learned")
    message = r"`token_ids` must have at most max_sequence_length = 12 positions: the learned.*"
    with pytest.raises(ValueError, match=message + "Received: 13"):
        backbone.encode(np.ones([1, 13], "int32"))
    with pytest.raises(ValueError, match=r"`length` must be at most 12.*learned.*Received: length=13"):
        backbone.require_length("encoder", "length", 13)
    encode = tf.function(backbone.encode, [tf.TensorSpec([None, None], tf.int32)], autograph=False)
    assert encode(np.ones([1, 12], "int32")).shape == (1, 12, 16)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message + r"\[13\]"):
        encode(np.ones([1, 13], "int32"))
    decoder_only = Seq2SeqBackbone(**{**SMALL, **DECODER_ONLY}, position_embedding="learned")
    source = decoder_only.encode(np.ones([1, 10], "int32"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="(?s)" + message + "13"):
        decoder_only.decode(np.ones([1, 3], "int32"), source, np.ones([1, 10], bool))


def test_an_unknown_kind_is_named():
    with pytest.raises(ValueError, match=r"`position_embedding` must be one of auto, none, .*'rotary'"):
        Seq2SeqBackbone(**SMALL, position_embedding="rotary")
