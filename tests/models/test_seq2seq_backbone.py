"""The whole skeleton: parts against the functional model, steps, packing, cost, errors."""

import json

import keras
import keras_nlp
import numpy as np
import pytest

from convnlp.layers import MIXERS, LightweightConv, TokenMixer, register_mixer
from convnlp.models import SIZES, Seq2SeqBackbone
from tests.mixer_table import sampled

SMALL = {"vocabulary_size": 50, "num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32}
IDS = np.random.default_rng(0).integers(3, 50, [2, 6])
MASK = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]], bool)
DECODER_IDS = np.random.default_rng(1).integers(3, 50, [2, 5])
causal_mixers = pytest.mark.parametrize(
    "mixer", [name for name, cls in MIXERS.items() if cls.supports_causal]
)


@causal_mixers
def test_the_parts_are_the_functional_model(mixer):
    backbone = Seq2SeqBackbone(**SMALL, mixer=mixer)
    outputs = backbone(
        {
            "encoder_token_ids": IDS,
            "encoder_padding_mask": MASK,
            "decoder_token_ids": DECODER_IDS,
            "decoder_padding_mask": np.ones_like(DECODER_IDS),
        }
    )
    encoded = backbone.encode(IDS, MASK)
    decoded = backbone.decode(DECODER_IDS, encoded, MASK)
    np.testing.assert_array_equal(outputs["encoder_sequence_output"], encoded)
    np.testing.assert_allclose(outputs["decoder_sequence_output"], decoded, atol=1e-6)
    assert backbone.logits(decoded).shape == (2, 5, 50)


@pytest.mark.parametrize("mixer", sampled(name for name, cls in MIXERS.items() if cls.supports_causal))
@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_steps_equal_the_whole(mixer, chunk):
    backbone = Seq2SeqBackbone(**SMALL, mixer=mixer, kernel_size=[3, 4])
    encoded = backbone.encode(IDS, MASK)
    whole = backbone.decode(DECODER_IDS, encoded, MASK)
    state, parts = backbone.init_decoder_state(encoded, MASK, max_length=5), []
    for start in range(0, 5, chunk):
        part, state = backbone.decode_step(DECODER_IDS[:, start : start + chunk], state, start)
        parts.append(part)
    assert all(value.shape[0] == 2 for value in state.values())
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, atol=2e-6)  # sums in another order


def test_encoder_pads_reach_nothing():
    backbone = Seq2SeqBackbone(**SMALL)
    encoded = backbone.encode(IDS[1:, :4])
    garbage = backbone.encode(IDS[1:], MASK[1:])
    np.testing.assert_allclose(garbage[:, :4], encoded, atol=1e-6)
    np.testing.assert_allclose(
        backbone.decode(DECODER_IDS[1:], garbage, MASK[1:]),
        backbone.decode(DECODER_IDS[1:], encoded),
        atol=1e-6,
    )


def test_packed_rows_equal_separate_ones():
    backbone = Seq2SeqBackbone(**SMALL)
    segments, decoder_segments = np.array([[1, 1, 1, 1, 2, 2]]), np.array([[1, 1, 1, 2, 2]])
    encoded = backbone.encode(IDS[:1], segment_ids=segments)
    packed = backbone.decode(
        DECODER_IDS[:1], encoded, segment_ids=decoder_segments, encoder_segment_ids=segments
    ).numpy()
    for encoder_part, part in ((slice(0, 4), slice(0, 3)), (slice(4, 6), slice(3, 5))):
        alone = backbone.decode(DECODER_IDS[:1, part], backbone.encode(IDS[:1, encoder_part]))
        np.testing.assert_allclose(packed[:, part], alone, atol=2e-6)


def test_packed_targets_need_the_segments_of_their_sources():
    backbone = Seq2SeqBackbone(**SMALL)
    message = r"^`encoder_segment_ids` must be given with `segment_ids`\. Received: encoder_segment_ids=None$"
    with pytest.raises(ValueError, match=message):
        backbone.decode(DECODER_IDS, backbone.encode(IDS), segment_ids=np.ones_like(DECODER_IDS))


def test_encoder_only_keeps_the_encoder():
    backbone = Seq2SeqBackbone(**SMALL)
    encoder = backbone.encoder_only()
    np.testing.assert_array_equal(encoder.encode(IDS, MASK), backbone.encode(IDS, MASK))
    assert encoder.count_params() < backbone.count_params()
    with pytest.raises(ValueError, match="num_decoder_layers"):
        encoder.decode(DECODER_IDS, encoder.encode(IDS))


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"window_size": 4}, {}),
        ({"local_attention": {"window_size": 4}}, {}),
        ({"num_heads": 1, "window_size": 4}, {"num_heads": 1}),
        ({"lightweight_conv": {"kernel_size": 5}}, {"lightweight_conv": {"kernel_size": 5}}),
        (None, None),
    ],
    ids=str,
)
def test_encoder_only_leaves_out_the_options_of_the_decoders_mixers(options, kept):
    mixers = {"encoder_mixer": "lightweight_conv", "decoder_mixer": "local_attention"}
    backbone = Seq2SeqBackbone(**SMALL, **mixers, mixer_options=options)
    encoder = backbone.encoder_only()
    assert encoder.get_config()["mixer_options"] == kept
    np.testing.assert_array_equal(encoder.encode(IDS, MASK), backbone.encode(IDS, MASK))


@pytest.mark.parametrize("num_layers", [2, 0], ids=["encoder", "decoder-only"])
def test_what_is_frozen_stays_so_in_a_copy(num_layers):
    backbone = Seq2SeqBackbone(**{**SMALL, "num_layers": num_layers, "num_decoder_layers": 2})
    backbone.token_embedding.trainable = False
    backbone.reading_stack.layers[0].trainable = False
    backbone.reading_stack.layers[0].feed_forward.trainable = True
    made = [backbone.encoder_only(), backbone.encoder_only().with_decoder(1)]
    for copy in made:
        kept = [layer.trainable for layer in backbone.reading_stack._flatten_layers()]
        assert [layer.trainable for layer in copy.encoder._flatten_layers()] == kept
        assert not copy.token_embedding.trainable_variables
    assert made[1].decoder.trainable_variables


def test_an_encoder_is_given_a_decoder():
    encoder = Seq2SeqBackbone(**{**SMALL, "num_decoder_layers": 0}, mixer="fourier", max_sequence_length=8)
    both = encoder.with_decoder(1, mixer="dynamic_conv", cross_attention_init="tied")
    np.testing.assert_array_equal(both.encode(IDS, MASK), encoder.encode(IDS, MASK))
    assert both.decode(DECODER_IDS, both.encode(IDS, MASK), MASK).shape == (2, 5, 16)
    assert both.get_config()["cross_attention_init"] == "tied"
    assert encoder.decoder is None
    np.testing.assert_array_equal(both.encoder_only().encode(IDS, MASK), encoder.encode(IDS, MASK))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"residual_form": "post"},
        {"residual_form": "post", "mixer": "conv_s2s"},
        {"residual_form": "affine"},
    ],
    ids=str,
)
def test_the_logits_of_a_new_decoder_are_as_small_as_if_the_embedding_were_new(options):
    encoder = Seq2SeqBackbone(**{**SMALL, "num_decoder_layers": 0}, **options)
    table = encoder.token_embedding.embeddings
    before = encoder.with_decoder(1)
    table.assign(8.0 * table)
    assert encoder.token_embedding.row_length() == pytest.approx(8.0, rel=0.1)
    after = encoder.with_decoder(1)
    small, large = (
        np.std(model.token_embedding(model.decode(DECODER_IDS, model.encode(IDS)), reverse=True))
        for model in (before, after)
    )
    assert large == pytest.approx(small, rel=0.5)  # few numbers; 8 or 64 times as large otherwise


def test_a_decoder_has_kernels_of_its_own():
    shared = {**SMALL, "num_layers": 2, "num_decoder_layers": 2, "kernel_size": [3, 5]}
    backbone = Seq2SeqBackbone(**shared, decoder_kernel_size=[7, 9])
    kernels = [
        [mixer["kernel_size"] for mixer in stack.mixers] for stack in (backbone.encoder, backbone.decoder)
    ]
    assert kernels == [[3, 5], [7, 9]]
    again = Seq2SeqBackbone.from_config(backbone.get_config())
    assert [mixer["kernel_size"] for mixer in again.decoder.mixers] == [7, 9]
    encoder = backbone.encoder_only()
    assert encoder.get_config()["decoder_kernel_size"] is None
    both = encoder.with_decoder(np.int64(1), kernel_size=11)
    assert both.num_decoder_layers == 1
    assert [mixer["kernel_size"] for mixer in both.decoder.mixers] == [11]
    with pytest.raises(ValueError, match="`decoder_kernel_size` must have one entry per layer, that is 2"):
        Seq2SeqBackbone(**shared, decoder_kernel_size=[7])


def test_a_decoder_that_cannot_be_is_refused():
    encoder = Seq2SeqBackbone(**{**SMALL, "num_decoder_layers": 0}, mixer="fourier")
    with pytest.raises(ValueError, match="`mixer` must be causal in a decoder, and 'fourier'"):
        encoder.with_decoder(1)
    with pytest.raises(ValueError, match=r"`num_layers` must be a whole number >= 1\. Received: 0"):
        encoder.with_decoder(0)
    with pytest.raises(ValueError, match=r"without one\. Received: one with num_decoder_layers=2"):
        Seq2SeqBackbone(**SMALL).with_decoder(1)


def test_a_decoder_that_could_not_write_is_refused(own_mixers):
    register_mixer(type("Whole", (LightweightConv,), {"name": "whole", "supports_step": False}))
    with pytest.raises(ValueError, match=r"`mixer` must have supports_step = True .* 'whole' has not"):
        Seq2SeqBackbone(**SMALL, mixer="whole")
    Seq2SeqBackbone(**{**SMALL, "num_decoder_layers": 0}, mixer="whole")


def test_conv_s2s_attends_in_every_decoder_layer_and_knows_positions():
    sizes = {"num_layers": 2, "num_heads": 1, "hidden_dim": 16, "intermediate_dim": 32, "dropout": 0.0}
    backbone = Seq2SeqBackbone(
        50, **sizes, mixer="conv_s2s", kernel_size=1, position_embedding="learned", max_sequence_length=12
    )
    ids, targets = np.array([[5, 6, 7, 8]]), np.array([[0, 9, 9, 4]])
    encoded = backbone.encode(ids)
    # With one tap, the order of the tokens is known by the positions alone.
    assert np.abs(backbone.encode(ids[:, ::-1])[:, ::-1] - encoded).max() > 1e-3
    decoded = backbone.decode(targets, encoded)
    assert np.abs(decoded[:, 1] - decoded[:, 2]).max() > 1e-3
    kernels = [layer.cross_attention.output_projection.kernel for layer in backbone.decoder.layers]
    values = [kernel.numpy() for kernel in kernels]
    for only, value in zip(kernels, values, strict=True):
        for kernel in kernels:
            kernel.assign(np.zeros_like(value))
        np.testing.assert_array_equal(
            backbone.decode(targets, 2 * encoded), backbone.decode(targets, encoded)
        )
        only.assign(value)
        changed = backbone.decode(targets, 2 * encoded) - backbone.decode(targets, encoded)
        assert np.abs(changed).max() > 1e-3


@pytest.mark.parametrize("mixer", MIXERS)
def test_cost_counts_the_parameters(mixer):
    decoder = {} if MIXERS[mixer].supports_causal else {"num_decoder_layers": 0}
    backbone = Seq2SeqBackbone(**SMALL, mixer=mixer, **decoder)
    assert backbone.cost(6, 5)["parameters"] == backbone.count_params()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mixer", "parameters"),
    [("lightweight_conv", 208_796_640), ("dynamic_conv", 210_342_912), ("self_attention", 222_959_616)],
)
def test_base_models_have_the_parameters_of_the_formulae(mixer, parameters):
    backbone = Seq2SeqBackbone(vocabulary_size=32128, **SIZES["base"], mixer=mixer)
    assert backbone.count_params() == backbone.cost(512, 114)["parameters"] == parameters


@pytest.mark.parametrize("mixer", [name for name, cls in MIXERS.items() if not cls.supports_causal])
def test_a_mixer_that_cannot_be_causal_makes_an_encoder(mixer):
    with pytest.raises(ValueError, match=rf"`mixer` must be causal .*num_decoder_layers=0.*mixer='{mixer}'"):
        Seq2SeqBackbone(**SMALL, mixer=mixer)
    with pytest.raises(ValueError, match=rf"`decoder_mixer` must be causal .*decoder_mixer='{mixer}'"):
        Seq2SeqBackbone(**SMALL, decoder_mixer=["dynamic_conv", mixer])
    assert Seq2SeqBackbone(**SMALL, encoder_mixer=mixer).encode(IDS, MASK).shape == (2, 6, 16)
    assert Seq2SeqBackbone(**SMALL, mixer=mixer, num_decoder_layers=0).decoder is None


def test_a_mixer_per_layer_and_a_side():
    backbone = Seq2SeqBackbone(
        **SMALL, encoder_mixer=["lightweight_conv", "self_attention"], decoder_mixer="dilated_conv"
    )
    names = [layer.mixing.name for layer in backbone.encoder.layers]
    assert names == ["mixing", "self_attention"]
    again = Seq2SeqBackbone.from_config(backbone.get_config())
    assert again.get_config() == backbone.get_config()
    assert again.count_params() == backbone.count_params()


def test_receptive_field_adds_up_over_the_layers():
    backbone = Seq2SeqBackbone(**SMALL, mixer="dilated_conv", kernel_size=[3, 5], dilation_rate=[1, 4])
    assert backbone.cost(100)["receptive_field"] == 1 + 2 + 16
    assert backbone.cost(10)["receptive_field"] == 10


def test_first_loss_is_that_of_a_guess():
    backbone = Seq2SeqBackbone(**{**SMALL, "vocabulary_size": 1000, "hidden_dim": 256})
    ids = np.random.default_rng(0).integers(3, 1000, [4, 32])
    logits = backbone.logits(backbone.decode(ids, backbone.encode(ids))).numpy()
    log_probability = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    # Logits of unit variance add 0.5 to ln V; leaking ones make it about sqrt(D) = 16.
    assert abs(-log_probability.mean() - np.log(1000)) < 1.0


def test_mixed_bfloat16_stays_near_float32():
    weights = Seq2SeqBackbone(**SMALL)
    half = Seq2SeqBackbone(**SMALL, dtype="mixed_bfloat16")
    half.set_weights(weights.get_weights())
    assert half.encode(IDS).dtype == "bfloat16"
    assert half.logits(half.encode(IDS)).dtype == "float32"
    # 8 bits of mantissa, a rounding a sublayer: a few times 2^-8 on outputs of unit scale
    np.testing.assert_allclose(np.array(half.encode(IDS), "float32"), weights.encode(IDS), atol=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hidden_dim": 0}, "`hidden_dim` must be an int >= 1. Received: hidden_dim=0"),
        ({"hidden_dim": True}, "`hidden_dim` must be an int >= 1. Received: hidden_dim=True"),
        ({"num_layers": 1001}, "`num_layers` must be at most 1000. Received: num_layers=1001"),
        ({"mixer": "attention"}, "`mixer` must be one of .*mixer='attention'"),
        ({"decoder_mixer": "attention"}, "`decoder_mixer` must be one of .*decoder_mixer='attention'"),
        ({"decoder_mixer": "attention", "num_decoder_layers": 0}, "`decoder_mixer` must be one of .*"),
        ({"encoder_mixer": "attention", "num_layers": 0, "num_decoder_layers": 2}, "`encoder_mixer` must be"),
        ({"kernel_size": [3]}, "kernel_size.*2.*\\[3\\]"),
        ({"mixer_options": {"window": 4}}, "window"),
        ({"residual_form": "none"}, "residual_form.*'none'"),
        ({"mixer_options": "window"}, "`mixer_options` must be a dict.*'window'"),
        ({"cross_attention_init": "zero"}, "`cross_attention_init`.*'zero'"),
        ({"cross_attention_init": "zero", "num_decoder_layers": 0}, "`cross_attention_init`.*'zero'"),
        ({"dropout": 1.5}, "`dropout` must be in .*dropout=1.5"),
        ({"dropout": None}, "`dropout` must be in .*dropout=None"),
        ({"dropout": "0.1"}, "`dropout` must be in .*dropout='0.1'"),
        ({"max_sequence_length": None}, "`max_sequence_length`.*=None"),
        ({"max_sequence_length": 0, "position_embedding": "learned"}, "`max_sequence_length`.*=0"),
        ({"pool_size": [1, 0]}, "`pool_size`.*=0"),
        ({"weight_softmax": "no"}, "`weight_softmax`.*'no'"),
        ({"weight_softmax": [True, False]}, r"`weight_softmax`.*\[True, False\]"),
        ({"num_heads": 3}, "num_heads=3"),
        ({"num_decoder_layers": -1}, "num_decoder_layers.*-1"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Seq2SeqBackbone(**{**SMALL, **arguments})


def test_numbers_of_numpy_are_numbers_like_any_other():
    arguments = {name: np.int64(value) for name, value in SMALL.items()}
    more = {
        "kernel_size": [np.int64(3), 5],
        "dropout": np.float32(0.5),
        "mixer_options": {"num_heads": np.int64(1)},
    }
    config = Seq2SeqBackbone(**arguments, **more).get_config()
    assert json.loads(json.dumps(config))["kernel_size"] == [3, 5]
    assert {name: config[name] for name in SMALL} == SMALL


def test_a_mixer_that_does_not_state_its_cost_is_built(own_mixers):
    @register_mixer
    class Same(TokenMixer):
        name = "same"

        def mix(self, x, masks, training):
            return x

    backbone = Seq2SeqBackbone(**{**SMALL, "num_decoder_layers": 0}, mixer="same")
    assert backbone.encode(IDS, MASK).shape == (2, 6, 16)


class TestBuilding:
    """Tracing a stack takes longer than all else of building it, and tells only what is known."""

    def test_traces_no_layer(self, monkeypatch):
        traced = []
        monkeypatch.setattr(TokenMixer, "call", lambda self, x, *args, **kwargs: traced.append(x))
        Seq2SeqBackbone(**SMALL)
        Seq2SeqBackbone(**{**SMALL, "num_layers": 0}, num_decoder_layers=2)
        Seq2SeqBackbone(**SMALL, num_decoder_layers=0, pool_size=[1, 2])
        assert not traced

    @pytest.mark.parametrize(
        ("arguments", "name", "dtype", "length"),
        [
            ({}, "encoder", "float32", None),
            ({}, "decoder", "mixed_bfloat16", 6),
            ({"num_layers": 0, "num_decoder_layers": 2}, "encoder", "mixed_bfloat16", 6),
            ({"num_layers": 0, "num_decoder_layers": 2}, "decoder", "mixed_bfloat16", None),
            ({"num_decoder_layers": 0, "pool_size": [2, 2]}, "encoder", "mixed_bfloat16", None),
            ({"num_decoder_layers": 0, "pool_size": [2, 2]}, "encoder", "float32", 6),
        ],
    )
    def test_knows_what_tracing_would_find(self, arguments, name, dtype, length):
        stack = getattr(Seq2SeqBackbone(**{**SMALL, **arguments}, dtype=dtype), name)
        x = keras.KerasTensor((None, length, 16), stack.compute_dtype)
        memory = [keras.KerasTensor((None, None, 16), stack.compute_dtype)] if name == "decoder" else []
        traced = keras.layers.Layer.compute_output_spec(stack, x, *memory)
        known = stack.compute_output_spec(x, *memory)
        if length and name == "encoder":
            assert known.shape[1] == stack(np.zeros([1, length, 16])).shape[1]
        assert known.dtype == traced.dtype
        for size, expected in zip(known.shape, traced.shape, strict=True):
            assert expected in (None, size)

    def test_a_mixer_may_build_its_parts_in_its_first_call(self, own_mixers):
        @register_mixer
        class Late(TokenMixer):
            name = "late"

            def __init__(self, hidden_dim, causal=False, **kwargs):
                super().__init__(hidden_dim, causal, **kwargs)
                self.dense = keras.layers.Dense(hidden_dim)

            def mix(self, x, masks, training):
                return self.dense(x)

        backbone = Seq2SeqBackbone(**SMALL, num_decoder_layers=0, mixer="late")
        assert [layer.mixer.dense.built for layer in backbone.encoder.layers] == [True, True]


def test_preset_round_trip_is_bit_equal(tmp_path):
    backbone = Seq2SeqBackbone(**SMALL)
    backbone.save_to_preset(str(tmp_path))
    again = keras_nlp.models.Backbone.from_preset(str(tmp_path))
    assert type(again) is Seq2SeqBackbone
    np.testing.assert_array_equal(again.encode(IDS, MASK), backbone.encode(IDS, MASK))
    assert Seq2SeqBackbone.from_preset(str(tmp_path), dropout=0.3).dropout == 0.3
