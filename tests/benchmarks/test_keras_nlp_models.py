import keras
import numpy as np
import pytest

from benchmarks.peers import keras_nlp_models as peers
from convnlp.models import Seq2SeqBackbone

WIDTH, INNER, POSITIONS = 16, 24, 12
SIZES = {
    "vocabulary_size": 50,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 2,
    "hidden_dim": WIDTH,
    "intermediate_dim": INNER,
}
IDS = np.random.default_rng(0).integers(3, 50, [2, 9])
ATTENTION_BIASES = 4 * WIDTH  # of queries, keys, values and the output
FEED_FORWARD_BIASES = INNER + WIDTH


def test_the_encoder_decoder_has_our_parameters_but_for_biases_and_positions():
    ours = Seq2SeqBackbone(**SIZES, mixer="self_attention")
    bias_tables = 4 * 32 * SIZES["num_heads"]
    final_norms = 2 * 2 * WIDTH  # of pre-norm, which ours is
    encoder_layer = ATTENTION_BIASES + FEED_FORWARD_BIASES
    decoder_layer = 2 * ATTENTION_BIASES + FEED_FORWARD_BIASES
    theirs = peers.encoder_decoder(SIZES, POSITIONS)
    extra = POSITIONS * WIDTH + 2 * encoder_layer + 2 * decoder_layer
    assert theirs.count_params() - extra == ours.count_params() - bias_tables - final_norms


def test_the_encoder_decoder_is_causal_and_reads_its_input():
    model = peers.encoder_decoder(SIZES, POSITIONS)
    batch = {"encoder_token_ids": IDS, "decoder_token_ids": IDS[:, :6]}
    logits = keras.ops.convert_to_numpy(model(batch))
    assert logits.shape == (2, 6, 50)

    other = IDS[:, :6].copy()
    other[:, 4] = 3
    changed = np.abs(keras.ops.convert_to_numpy(model({**batch, "decoder_token_ids": other})) - logits)
    assert changed[:, :4].max() < 1e-6 < changed[:, 4:].max()

    reversed_input = model({**batch, "encoder_token_ids": IDS[:, ::-1]})
    assert np.abs(keras.ops.convert_to_numpy(reversed_input) - logits).max() > 1e-6


def test_pads_change_no_class():
    model = peers.classifier(SIZES, POSITIONS, num_classes=3, is_masked=True)
    mask = np.arange(9) < np.array([[9], [6]])
    whole = model({"token_ids": IDS, "padding_mask": mask})
    short = model({"token_ids": IDS[1:, :6], "padding_mask": mask[1:, :6]})
    # float32 sums over another number of keys
    np.testing.assert_allclose(whole[1:], short, rtol=1e-4, atol=1e-5)


def test_the_masked_and_the_unmasked_classifier_agree_without_pads():
    masked = peers.classifier(SIZES, POSITIONS, num_classes=3, is_masked=True)
    unmasked = peers.classifier(SIZES, POSITIONS, num_classes=3, is_masked=False)
    unmasked.set_weights(masked.get_weights())
    expected = masked({"token_ids": IDS, "padding_mask": np.ones([2, 9], bool)})
    np.testing.assert_allclose(unmasked({"token_ids": IDS}), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_bart_generates_what_its_whole_forward_pass_would(jit_compile):
    lm = peers.seq2seq_lm(SIZES, POSITIONS, jit_compile=jit_compile)
    for variable in lm.variables:  # so that the argmax is no tie
        variable.assign(variable + 0.3 * np.random.normal(size=variable.shape))
    batch = {
        "encoder_token_ids": IDS,
        "encoder_padding_mask": np.ones([2, 9], "int32"),
        "decoder_token_ids": np.zeros([2, 8], "int32"),
        "decoder_padding_mask": np.tile(np.arange(8) < 1, [2, 1]),
    }
    ids = lm.generate(batch, stop_token_ids=None)["decoder_token_ids"]
    logits = lm({**batch, "decoder_token_ids": ids, "decoder_padding_mask": np.ones([2, 8], "int32")})
    np.testing.assert_array_equal(ids[:, 1:], np.argmax(logits, -1)[:, :-1])
