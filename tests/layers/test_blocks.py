"""The skeleton around the mixers, against NumPy written from the equations."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels, layers
from convnlp.layers import (
    MIXERS,
    CrossAttention,
    Decoder,
    DecoderLayer,
    Dropout,
    DynamicConv,
    Encoder,
    EncoderLayer,
    FeedForward,
    GLUConvBlock,
    HashedNgrams,
    LightweightConv,
    PrefixDecoder,
    QuestionSummary,
    RelativePositionBias,
    Residual,
    SpanPointers,
    TokenMixer,
    dropout_seed,
)
from convnlp.layers.pair_segments import PairSegments
from convnlp.layers.residual import RESIDUAL_FORMS
from convnlp.layers.token_pooling import MaskPooling, TextPooling

D, F, H = 8, 12, 2


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


def test_glu_conv_block_is_its_equation():
    mixer = LightweightConv(hidden_dim=D, num_heads=H, kernel_size=3)
    block, x = GLUConvBlock(mixer), random(2, 5, D)
    y = block(x)
    w = block.gate.kernel.numpy()
    gated = x @ w[:, :D] / (1 + np.exp(-x @ w[:, D:]))
    expected = mixer(gated).numpy() @ block.output_projection.kernel.numpy()
    np.testing.assert_allclose(y, expected, atol=1e-5)


@pytest.mark.parametrize("pads_are_zeros", [True, False])
@pytest.mark.parametrize("masks", [("padding_mask",), ("segment_ids",), ("padding_mask", "segment_ids")])
def test_glu_conv_block_masks_whichever_part_lays_the_mask(masks, pads_are_zeros):
    mixer = DynamicConv(hidden_dim=D, num_heads=H, kernel_size=3)
    mixer.pads_are_zeros = pads_are_zeros
    block, x = GLUConvBlock(mixer), random(2, 5, D)
    tokens = np.array([[True, True, True, False, False], [True, True, False, True, True]])
    arguments = {"padding_mask": tokens, "segment_ids": tf.constant([[1, 1, 2, 0, 0], [1, 1, 1, 2, 2]])}
    arguments = {name: arguments[name] for name in masks}
    counts = {name: 2 * tf.cast(mask, tf.int32) for name, mask in arguments.items()}  # true is not only 1
    y = block(x, **counts)
    w = block.gate.kernel.numpy()
    gated = x @ w[:, :D] / (1 + np.exp(-x @ w[:, D:]))
    expected = mixer(gated, **arguments).numpy() @ block.output_projection.kernel.numpy()
    if "padding_mask" not in masks:
        tokens = arguments["segment_ids"].numpy() > 0
    np.testing.assert_allclose(y[tokens], expected[tokens], atol=1e-5)


def test_feed_forward_is_its_equation():
    layer, x = FeedForward(F), random(2, 5, D)
    y = layer(x)
    expected = np.maximum(x @ layer.inner.kernel.numpy(), 0) @ layer.outer.kernel.numpy()
    np.testing.assert_allclose(y, expected, atol=1e-5)


@pytest.mark.parametrize("init", ["independent", "tied"])
def test_cross_attention_is_its_equation_and_hides_what_is_not_allowed(init):
    layer, x, encoded = CrossAttention(D, H, init=init), random(2, 3, D), random(2, 4, D, seed=1)
    allowed = np.array([[True, True, False, True], [True, False, False, False]])[:, None, :]
    y = layer(x, encoded, allowed=allowed)
    wq, wk, wv, wo = (
        p.kernel.numpy() for p in (layer.query, layer.key, layer.value, layer.output_projection)
    )
    expected = np.zeros_like(x)
    for b in range(2):
        for h in range(H):
            part = slice(h * D // H, (h + 1) * D // H)
            scores = (x[b] @ wq[:, part]) @ (encoded[b] @ wk[:, part]).T
            weights = softmax(np.where(allowed[b], scores, -np.inf))
            expected[b, :, part] = weights @ (encoded[b] @ wv[:, part])
    np.testing.assert_allclose(y, expected @ wo, atol=1e-5)


def test_tied_cross_attention_starts_at_a_quarter_of_the_keys():
    layer = CrossAttention(D, H, init="tied")
    layer.build((None, None, D))
    np.testing.assert_array_equal(layer.query.kernel, 0.25 * layer.key.kernel)
    independent = CrossAttention(D, H)
    independent.build((None, None, D))
    assert abs(np.corrcoef(np.ravel(independent.query.kernel), np.ravel(independent.key.kernel))[0, 1]) < 0.9


@pytest.mark.parametrize("num_heads", [0, 3])
def test_cross_attention_heads_divide_the_width(num_heads):
    with pytest.raises(ValueError, match=f"`num_heads` must .*Received: num_heads={num_heads}"):
        CrossAttention(D, num_heads)


@pytest.mark.parametrize("form", RESIDUAL_FORMS)
def test_residual_forms(form):
    residual, x, y = Residual(form), random(2, 3, D), random(2, 3, D, seed=1)
    residual.build(x.shape)
    (same, entered), left = residual.enter(x), residual.leave(x, y)
    assert np.array_equal(same, x)
    expected = {
        "pre": (layer_norm(x), x + y),
        "post": (x, layer_norm(x + y)),
        "sublayer_output": (x, x + layer_norm(y)),
        "affine": (x, x + 0.1 * y),
    }[form]
    np.testing.assert_allclose(entered, expected[0], atol=1e-5)
    np.testing.assert_allclose(left, expected[1], atol=1e-5)


@pytest.mark.parametrize("form", [form for form in RESIDUAL_FORMS if form != "affine"])
def test_every_form_ends_in_a_norm(form):
    mixers = [{"name": "lightweight_conv", "hidden_dim": D, "num_heads": H, "kernel_size": 3}] * 2
    y = Encoder(mixers, F, residual_form=form)(10.0 * random(2, 5, D)).numpy()
    np.testing.assert_allclose(y.mean(-1), 0, atol=1e-5)
    np.testing.assert_allclose(y.std(-1), 1, atol=1e-3)  # the norm's epsilon


def test_layers_of_res_mlp():
    """Section 2 of its paper: Z = X + s1 (A Aff(X) + b), Y = Z + s2 MLP(Aff(Z)), and an Aff at the end."""
    mixer = {"name": "res_mlp", "hidden_dim": D, "max_sequence_length": 7, "affine": False}
    encoder, x = Encoder([mixer] * 2, F, residual_form="affine"), random(2, 5, D)
    encoder(x)
    rng = np.random.default_rng(0)
    encoder.set_weights([value + 0.3 * rng.normal(size=value.shape) for value in encoder.get_weights()])

    def affine(layer, values):
        return values * layer.scale.numpy() + layer.offset.numpy()

    expected = np.asarray(x, "float64")
    for layer in encoder.layers:
        matrix, bias = layer.mixer.matrix.kernel.numpy()[:5, :5], layer.mixer.matrix.bias.numpy()[:5]
        mixed = matrix @ affine(layer.mixing_residual.norm, expected) + bias[:, np.newaxis]
        expected = expected + layer.mixing_residual.layer_scale.numpy() * mixed
        inner = affine(layer.feed_forward_residual.norm, expected) @ layer.feed_forward.inner.kernel.numpy()
        fed = np.maximum(inner, 0) @ layer.feed_forward.outer.kernel.numpy()
        expected = expected + layer.feed_forward_residual.layer_scale.numpy() * fed
    # Float32 sums of two layers, against float64.
    np.testing.assert_allclose(encoder(x), affine(encoder.final_norm, expected), rtol=1e-4, atol=1e-4)
    assert encoder.cost(5)["parameters"] == encoder.count_params()


@pytest.mark.parametrize("form", RESIDUAL_FORMS)
def test_steps_and_parameters_of_every_form(form):
    mixers = [
        {"name": "lightweight_conv", "hidden_dim": D, "num_heads": H, "kernel_size": 3, "causal": True}
    ] * 2
    decoder, x, memory = Decoder(mixers, F, H, residual_form=form), random(2, 5, D), random(2, 3, D, seed=1)
    whole = decoder(x, memory)
    assert decoder.cost(5, 3)["parameters"] == decoder.count_params()
    state, steps = decoder.init_state(memory, 5), []
    for index in range(5):
        y, state = decoder.step(x[:, index : index + 1], state, index)
        steps.append(y)
    np.testing.assert_allclose(np.concatenate(steps, 1), whole, atol=1e-5)


def test_steps_take_inputs_of_any_float_type():
    """As `call` does."""
    mixer = {"name": "lightweight_conv", "hidden_dim": 8, "num_heads": 2, "causal": True}
    decoder = Decoder([mixer], intermediate_dim=16, num_heads=2, dtype="mixed_bfloat16")
    x, memory = random(2, 3, 8), random(2, 4, 8, seed=1)
    whole = decoder(x, memory)
    y, _ = decoder.step(x, decoder.init_state(memory, 3), 0)
    assert y.dtype == whole.dtype == "bfloat16"
    np.testing.assert_allclose(tf.cast(y, tf.float32), tf.cast(whole, tf.float32), atol=0.05)


@pytest.mark.parametrize(
    "make",
    [
        lambda dropout: FeedForward(16, dropout),
        lambda dropout: CrossAttention(8, 2, dropout),
        lambda dropout: Residual("pre", dropout),
        lambda dropout: Encoder(
            [{"name": "lightweight_conv", "hidden_dim": 8, "num_heads": 2}], 16, dropout=dropout
        ),
    ],
    ids=["feed_forward", "cross_attention", "residual", "encoder"],
)
@pytest.mark.parametrize("dropout", [1.0, -0.1, "0.1", float("nan")])
def test_a_wrong_dropout_is_named(make, dropout):
    with pytest.raises(ValueError, match=rf"`dropout` must be in \[0, 1\)\. Received: dropout={dropout!r}"):
        make(dropout)


@pytest.mark.parametrize("size", [0, 2.0])
def test_a_wrong_inner_width_is_named(size):
    with pytest.raises(ValueError, match=r"`intermediate_dim` must be an int >= 1\. Received: "):
        FeedForward(size)


def test_unknown_residual_form_is_named():
    with pytest.raises(ValueError, match=r"residual_form.*'sandwich'"):
        Residual("sandwich")


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_a_mixer_with_a_feed_forward_network_inside_gets_no_second_one(stack):
    mixer = {"name": "muse", "hidden_dim": D, "num_heads": H, "intermediate_dim": F, "causal": True}
    layers = Encoder([mixer], F) if stack == "encoder" else Decoder([mixer], F, num_heads=H)
    layers.build((None, None, D))
    lengths = [5] if stack == "encoder" else [5, 3]
    assert layers.count_params() == layers.cost(*lengths)["parameters"]
    inside = sum(tuple(weight.shape) == (D, F) for weight in layers.weights)
    assert inside == 1


def test_packed_decoder_rows_see_their_own_segment_of_the_encoder_only():
    mixers = [{"name": "dynamic_conv", "hidden_dim": D, "num_heads": H, "kernel_size": 3, "causal": True}]
    decoder, x, encoded = Decoder(mixers, F, num_heads=H), random(1, 5, D), random(1, 4, D, seed=1)
    segments, encoder_segments = np.array([[1, 1, 2, 2, 2]]), np.array([[1, 1, 1, 2]])
    same = segments[:, :, None] == encoder_segments[:, None, :]
    packed = decoder(x, encoded, allowed=same, segment_ids=segments).numpy()
    first = decoder(x[:, :2], encoded[:, :3]).numpy()
    second = decoder(x[:, 2:], encoded[:, 3:]).numpy()
    np.testing.assert_allclose(packed, np.concatenate([first, second], 1), atol=1e-5)


SIZE = {"hidden_dim": D, "num_heads": H, "kernel_size": 3}
MIXER, CAUSAL = ({"name": "dynamic_conv", **SIZE, "causal": causal} for causal in (False, True))
LAYERS = {
    CrossAttention: (D, H),
    Decoder: ([CAUSAL], F, H),
    DecoderLayer: (CAUSAL, F, H),
    Dropout: (0.1,),
    Encoder: ([CAUSAL], F),
    EncoderLayer: (MIXER, F),
    FeedForward: (F,),
    GLUConvBlock: (LightweightConv(**SIZE),),
    HashedNgrams: (16, D),
    MaskPooling: (2,),
    PairSegments: (1,),
    PrefixDecoder: ([MIXER], F),
    QuestionSummary: (D, 1),
    RelativePositionBias: (H, True, "alibi"),
    Residual: ("pre",),
    SpanPointers: (1, -1e9),
    TextPooling: (),
}


@pytest.mark.parametrize("cls", LAYERS, ids=lambda cls: cls.__name__)
def test_layers_round_trip_through_their_config(cls):
    config = keras.saving.serialize_keras_object(cls(*LAYERS[cls]))
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(config)))
    assert type(again) is cls
    assert keras.saving.serialize_keras_object(again) == config


def test_every_public_layer_round_trips():
    """The suite of mixers does the same with each of them."""
    public = [getattr(layers, name) for name in layers.__all__]
    public = {each for each in public if isinstance(each, type) and issubclass(each, keras.layers.Layer)}
    assert public <= {*LAYERS, *MIXERS.values(), TokenMixer}


@pytest.fixture(params=["fast", "plain"])
def form(request):
    with kernels.implementation(request.param):
        yield request.param


@pytest.mark.usefixtures("form")
class TestDropout:
    x = np.ones([64, 64], "float32")

    def masks(self, seed, count=2):
        dropout = Dropout(0.25)
        with dropout_seed(tf.constant(seed)):
            return [dropout(self.x, training=True).numpy() for _ in range(count)]

    def test_same_seed_same_masks_and_calls_differ(self):
        first, again, other = self.masks([1, 2]), self.masks([1, 2]), self.masks([1, 3])
        np.testing.assert_array_equal(first, again)
        assert (first[0] != first[1]).any()
        assert (first[0] != other[0]).any()

    def test_keeps_the_mean_and_drops_the_rate(self):
        y = self.masks([5, 5])[0]
        assert abs((y == 0).mean() - 0.25) < 4 * (0.25 * 0.75 / y.size) ** 0.5  # 4 standard deviations
        np.testing.assert_allclose(y[y != 0], 1 / 0.75, rtol=1e-6)

    @pytest.mark.parametrize("rate", [1e-6, 0.1, 0.5, 0.999])
    def test_keeps_the_mean_for_small_and_large_rates(self, rate):
        x = np.ones([1000, 1001], "float32")  # no multiple of four
        with dropout_seed(tf.constant([0, 9])):
            y = Dropout(rate)(x, training=True).numpy()
        share, tolerance = (y != 0).mean(), 1 / 2**16
        assert abs(share - (1 - rate)) < tolerance + 4 * (rate * (1 - rate) / y.size) ** 0.5
        np.testing.assert_allclose(y[y != 0], 1 / (1 - rate), rtol=1e-5 if rate < 0.9 else 1e-2)

    def test_a_rate_that_would_round_to_1_still_gives_numbers(self):
        with dropout_seed(tf.constant([0, 9])):
            y = Dropout(1 - 1e-7)(np.ones([512, 512], "float32"), training=True).numpy()
        assert np.isfinite(y).all()
        assert (y != 0).mean() < 1e-3

    def test_neighbours_and_halves_of_a_word_are_independent(self):
        (y,) = self.masks([3, 8], 1)
        kept = (y.ravel() != 0) - 0.75
        for distance in (1, 2, 3, 4, 64):
            correlation = np.mean(kept[distance:] * kept[:-distance]) / (0.25 * 0.75)
            assert abs(correlation) < 4 / 64, distance

    def test_the_gradient_is_scaled_as_the_value_is(self):
        x = tf.constant(np.random.default_rng(0).normal(size=[8, 9]).astype("float32"))
        with tf.GradientTape() as tape, dropout_seed(tf.constant([4, 4])):
            tape.watch(x)
            y = Dropout(0.25)(x, training=True)
        np.testing.assert_allclose(tape.gradient(y, x), y / x, rtol=1e-6)

    def test_a_graph_of_open_sizes_drops_the_same(self):
        dropout = Dropout(0.25)

        @tf.function(input_signature=[tf.TensorSpec([None, None, 7])], autograph=False)
        def call(x):
            with dropout_seed(tf.constant([1, 2])):
                return dropout(x, training=True)

        x = np.ones([3, 5, 7], "float32")
        with dropout_seed(tf.constant([1, 2])):
            expected = dropout(x, training=True)
        np.testing.assert_array_equal(call(x), expected)
        assert call.get_concrete_function().structured_outputs.shape.as_list() == [None, None, 7]
        assert call(x[:0]).shape == (0, 5, 7)

    def test_is_the_identity_without_training(self):
        np.testing.assert_array_equal(Dropout(0.5)(self.x), self.x)

    def test_works_in_fit_without_a_seed(self):
        assert (Dropout(0.5)(self.x, training=True).numpy() == 0).any()

    def test_rate_out_of_range(self):
        with pytest.raises(ValueError, match=r"rate=1\.0"):
            Dropout(1.0)


def test_layers_that_are_traced_once():
    """By two calls of one shape; a call with another mask than one of pads has layers of its own."""
    mixers = [{"name": "lightweight_conv", "hidden_dim": D, "num_heads": H, "kernel_size": 3}] * 2
    encoder = Encoder(mixers, F)
    x, padding_mask = random(2, 5, D), np.array([[True] * 5, [True] * 3 + [False] * 2])
    segment_ids = np.array([[1, 1, 2, 2, 2], [1, 1, 1, 0, 0]])
    calls = [{"padding_mask": padding_mask}, {"padding_mask": ~padding_mask}, {"segment_ids": segment_ids}]
    expected = [encoder(x, **masks) for masks in calls]
    with encoder.traced_once():
        traced = tf.function(lambda: [encoder(x, **masks) for masks in calls]).get_concrete_function()
    for found, plain in zip(traced(), expected, strict=True):
        np.testing.assert_allclose(found, plain, atol=1e-5)  # float32 in a graph and eagerly
    named = [function.signature.name for function in traced.graph.as_graph_def().library.function]
    assert sum("layers" in name for name in named) == 1
    called = {op.get_attr("f").name for op in traced.graph.get_operations() if "PartitionedCall" in op.type}
    assert len(called) == 1
    assert encoder.shared_function is None
