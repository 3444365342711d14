"""What is folded into the weights of an exported model leaves its outputs as they are."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels
from convnlp.layers import MIXERS, TokenMixer
from convnlp.layers.projection import Projection
from convnlp.models import Seq2SeqBackbone, TextClassifier, TextClassifierPreprocessor
from convnlp.models.folded_constants import folded
from tests.mixer_table import SAMPLE
from tests.small_classifier import keep_ngrams

LENGTHS = (11, 6, 1, 0)  # tokens of the rows
# Mixers whose input goes into projections alone, but for those in a gated block, which all are.
ENTERED = {"self_attention", "relative_attention", "local_attention"}
# Mixers without a block whose output is no sum of products.
WITHOUT_EXIT = {
    "conv_s2s",
    "external_attention",
    "feed_forward_stack",
    "fourier",
    "gated_dilated_conv",
    "mlp_mixer",
    "res_mlp",
}


def backbone(tokenizer_size=40, **config):
    """A backbone whose norms scale, move, and have something to take the mean of."""
    keras.utils.set_random_seed(0)
    defaults = {
        "num_layers": 2,
        "num_decoder_layers": 0,
        "num_heads": 2,
        "hidden_dim": 16,
        "intermediate_dim": 32,
        "kernel_size": 3,
        "max_sequence_length": 16,
        "position_embedding": None,
    }
    found = Seq2SeqBackbone(tokenizer_size, **{**defaults, **config})
    for weight in found.weights:
        # Rows with a mean of their own: a norm that forgot to take it off would be seen.
        weight.assign(weight + 0.3 + 0.3 * keras.random.normal(weight.shape, seed=1))
    return found


def rows():
    ids = np.random.default_rng(0).integers(3, 40, [len(LENGTHS), max(LENGTHS)])
    mask = np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]
    return tf.constant(ids * mask, tf.int32), tf.constant(mask)


def encoded(model):
    ids, mask = rows()
    return model.encode(ids, padding_mask=mask).numpy()[mask.numpy()]


def assert_equal(folded_values, plain):
    # Some ten float32 sums of 16 to 32 terms, in another order, behind each other in two layers.
    np.testing.assert_allclose(folded_values, plain, rtol=0, atol=1e-5 * max(1.0, np.abs(plain).max()))


def norms(model):
    """(those in front of mixers, those in front of feed-forward networks, the last one)."""
    layers = model.encoder.layers
    fed = [layer.feed_forward_residual.norm for layer in layers if layer.feed_forward is not None]
    return [layer.mixing_residual.norm for layer in layers], fed, [model.encoder.final_norm]


@pytest.mark.parametrize(
    ("mixer", "form"),
    [pytest.param(mixer, "inference", marks=[pytest.mark.slow] * (mixer not in SAMPLE)) for mixer in MIXERS]
    + [("lightweight_conv", "edge"), ("self_attention", "edge")],
)
def test_every_mixer_gives_what_it_gave(mixer, form):
    model = backbone(mixer=mixer)
    before = [weight.numpy() for weight in model.weights]
    with kernels.implementation(form):
        plain = encoded(model)
        with folded(model):
            found = encoded(model)
            mixing, fed, last = norms(model)
            assert {norm.is_folded for norm in mixing} == {MIXERS[mixer].gated or mixer in ENTERED}
            assert all(norm.is_folded for norm in fed)
            assert not any(norm.is_folded for norm in last)
            has_exits = MIXERS[mixer].gated or mixer not in WITHOUT_EXIT
            assert {norm.is_centred for norm in mixing + fed + last} == {has_exits}
        again = encoded(model)
    assert_equal(found, plain)
    np.testing.assert_array_equal(again, plain)
    for weight, value in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)
    assert all(layer.folded_offset is None for layer in model._flatten_layers() if type(layer) is Projection)


@pytest.mark.parametrize(
    "config",
    [
        {"residual_form": "post"},
        {"residual_form": "sublayer_output"},
        {"pool_size": [1, 2]},
        {"position_embedding": "learned"},
        {"position_embedding": "sinusoidal"},
        {"mixer_options": {"double_gate": True}},
        {"mixer": ["lightweight_conv", "self_attention"]},
        {"mixer": "external_attention", "mixer_options": {"memory_heads": 2}},
        {"weight_softmax": False},
        {"num_layers": 0, "num_decoder_layers": 2},
        {"num_decoder_layers": 1},
    ],
    ids=str,
)
def test_every_skeleton_gives_what_it_gave(config):
    model = backbone(**{"mixer": "lightweight_conv", **config})
    ids, mask = rows()
    mask_out = model.encoder_output_mask(mask).numpy() if model.num_layers else mask.numpy()
    with kernels.implementation("inference"):
        plain = model.read(ids, mask).numpy()
        with folded(model):
            found = model.read(ids, mask).numpy()
    assert_equal(found[mask_out], plain[mask_out])


@pytest.mark.parametrize("mixer", ["lightweight_conv", "self_attention"])
def test_offsets_may_stay_before_the_products(mixer):
    model = backbone(mixer=mixer)
    first, second, *_ = (norm for group in norms(model)[:2] for norm in group)
    first.gamma.assign(first.gamma * ([0.0, 1e-6] + [1.0] * 14))  # no number divides by these two
    with kernels.implementation("inference"):
        plain = encoded(model)
        with folded(model, keeps_offsets=True):
            found = encoded(model)
            adding = [
                layer
                for layer in model._flatten_layers()
                if getattr(layer, "folded_offset", None) is not None
            ]
            assert {*adding} == {*model.encoder.layers[0].mixing.entry_projections}
            assert not first.kept_offset[:2].any()
            assert first.kept_offset[2:].all()
            assert second.kept_offset.all()
        again = encoded(model)
    assert_equal(found, plain)
    np.testing.assert_array_equal(again, plain)


def test_packed_texts_and_prefixes():
    model = backbone(mixer=["dynamic_conv", "self_attention"])
    ids = rows()[0][:1]
    segments = tf.constant([[1] * 4 + [2] * 5 + [0] * 2])
    prefix = tf.constant([[True] * 3 + [False] * 8])
    with kernels.implementation("inference"):
        for masks in ({"segment_ids": segments}, {"prefix_mask": prefix}, {"right_to_left": True}):
            plain = model.encode(ids, **masks).numpy()
            with folded(model):
                found = model.encode(ids, **masks).numpy()
            assert_equal(found[:, :9], plain[:, :9])  # the last two may be pads


@pytest.mark.parametrize("pooling", ["mean_max", "layers", "pair"])
def test_states_that_are_pooled_keep_their_means(pooling, tokenizer):
    model = TextClassifier(
        backbone(tokenizer.vocabulary_size(), mixer="lightweight_conv"),
        3,
        TextClassifierPreprocessor(tokenizer, 12),
        pooling=pooling,
        ngram_buckets=8,
    )
    texts = ["the river", "the old teacher follows", ""]
    keep_ngrams(model, texts)
    inputs = model.preprocessor(texts)
    with kernels.implementation("inference"):
        plain = model(inputs).numpy()
        with folded(model):
            found = model(inputs).numpy()
            mixing, _, _ = norms(model.backbone)
            assert mixing[0].is_centred == (pooling != "layers")
    assert_equal(found, plain)


def test_where_the_table_gives_logits_it_is_left_alone():
    model = backbone(mixer="lightweight_conv")
    ids, mask = rows()

    def logits():
        return model.logits(model.encode(ids, padding_mask=mask)).numpy()[mask.numpy()]

    with kernels.implementation("inference"):
        plain = logits()
        with folded(model, writes_text=True):
            found = logits()
            mixing, _, _ = norms(model)
            assert mixing[0].is_folded
            assert not mixing[0].is_centred
            assert not model.token_embedding.is_folded
    assert_equal(found, plain)


def test_all_is_as_before_if_tracing_fails():
    model = backbone(mixer="lightweight_conv")
    kernel = model.token_embedding.embeddings._value
    with pytest.raises(RuntimeError, match="no operation"), folded(model):
        raise RuntimeError("no operation for it")
    assert model.token_embedding.embeddings._value is kernel
    assert not any(norm.is_folded or norm.is_centred for group in norms(model) for norm in group)


def test_a_graph_has_fewer_operations():
    """A norm takes five where it took nine, and the taps, which are constants, none."""
    model = backbone(mixer="lightweight_conv")

    def kinds():
        graph = tf.function(lambda ids: model.encode(ids), autograph=False).get_concrete_function(
            tf.TensorSpec([None, None], tf.int32)
        )
        names = [op.type for op in graph.graph.get_operations()]
        return {kind: names.count(kind) for kind in set(names)}

    with kernels.implementation("inference"):
        plain = kinds()
        with folded(model):
            found = kinds()
    assert (plain["Softmax"], plain["SquaredDifference"], plain["Mean"]) == (2, 5, 10)
    assert "Softmax" not in found
    assert "SquaredDifference" not in found
    assert (found["Mean"], found["Square"], found["BiasAdd"]) == (5, 5, 4)


def test_a_mixer_of_ones_own_is_left_alone():
    assert TokenMixer(hidden_dim=4).entry_projections == ()
    assert TokenMixer(hidden_dim=4).exit_projections == ()
