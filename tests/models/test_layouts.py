"""Named stacks, merged positions, and what a decoder cannot be made of."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp.layers import MIXERS
from convnlp.models import LAYOUTS, Seq2SeqBackbone, TextClassifier
from convnlp.models.layouts import layer_mixers
from convnlp.objectives import build_objectives

SMALL = {
    "vocabulary_size": 50,
    "num_layers": 4,
    "num_heads": 2,
    "hidden_dim": 16,
    "intermediate_dim": 32,
    "num_decoder_layers": 1,
    "dropout": 0.0,
}
POOLED = {**SMALL, "mixer": "c_c_t_t", "pool_size": [1, 2, 1, 3], "kernel_size": 3}
IDS = np.random.default_rng(0).integers(3, 50, [2, 13])
LENGTHS = np.array([[13], [7]])
MASK = np.arange(13) < LENGTHS
DECODER_IDS = np.random.default_rng(1).integers(3, 50, [2, 4])
REORDERED = 2e-6  # float32 sums in another order, or over another number of zeros


def test_layers_of_the_layouts():
    assert layer_mixers("c_c_t_t", 5, is_decoder=False) == ["mb_conv"] * 3 + ["relative_attention"] * 2
    for number, name in enumerate(("c_c_c_c", "c_c_c_t", "c_c_t_t", "c_t_t_t")):
        for size in (4, 12):
            stages = ["mb_conv"] * (4 - number) + ["relative_attention"] * number
            expected = [mixer for mixer in stages for _ in range(size // 4)]
            assert layer_mixers(name, size, is_decoder=False) == expected
        assert layer_mixers(name, 1, is_decoder=False) == ["mb_conv"]
    assert layer_mixers("c_c_c_t", 2, is_decoder=False) == ["mb_conv", "relative_attention"]
    assert layer_mixers("c_c_c_t", 11, is_decoder=False).count("relative_attention") == 2
    assert layer_mixers("c_t_t_t", 2, is_decoder=False) == ["mb_conv", "relative_attention"]
    hybrid = layer_mixers("fnet_hybrid", 12, is_decoder=False)
    assert hybrid == ["fourier"] * 10 + ["self_attention"] * 2
    four = ["dynamic_conv"] * 3 + ["self_attention"]
    assert layer_mixers("cross_segment_attention", 4, is_decoder=False) == four
    assert layer_mixers("cross_segment_attention", 12, is_decoder=False).count("self_attention") == 2
    for mixer in ("linear_attention", "latent_attention"):
        on_top = layer_mixers(f"{mixer}_on_top", 6, is_decoder=False)
        assert on_top == ["dynamic_conv"] * 4 + [mixer] * 2
        every_third = layer_mixers(f"{mixer}_every_third", 7, is_decoder=False)
        assert every_third == (["dynamic_conv"] * 2 + [mixer]) * 2 + ["dynamic_conv"]
        assert layer_mixers(f"{mixer}_every_third", 2, is_decoder=False) == ["dynamic_conv", mixer]
    for name in LAYOUTS:
        assert all(MIXERS[mixer].supports_causal for mixer in layer_mixers(name, 3, is_decoder=True))
        assert not set(LAYOUTS) & set(MIXERS)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_a_backbone(name):
    backbone = Seq2SeqBackbone(**SMALL, mixer=name)
    mixers = [layer.mixer.name for layer in backbone.encoder.layers]
    assert mixers == layer_mixers(name, 4, is_decoder=False)
    assert backbone.cost(13, 4)["parameters"] == backbone.count_params()
    again = Seq2SeqBackbone.from_config(backbone.get_config())
    assert again.count_params() == backbone.count_params()


def test_a_wrong_name_is_answered_with_those_of_mixers_and_layouts():
    with pytest.raises(ValueError, match=r"`mixer` must be one of .*fourier, .*c_t_t_t, .*mixer='C-T-T-T'"):
        Seq2SeqBackbone(**SMALL, mixer="C-T-T-T")
    with pytest.raises(ValueError) as error:  # a layout is no layer
        Seq2SeqBackbone(**SMALL, mixer=["c_t_t_t"] * 4)
    assert "matrix_decomposition, or be registered" in str(error.value)


def test_options_of_one_mixer_among_others():
    options = {"mb_conv": {"expansion": 2}, "num_heads": 4}
    backbone = Seq2SeqBackbone(**SMALL, mixer="c_c_t_t", mixer_options=options)
    first, *_, last = (layer.mixer for layer in backbone.encoder.layers)
    assert (first.expansion, last.num_heads) == (2, 4)


@pytest.mark.parametrize("argument", ["mixer", "decoder_mixer"])
def test_a_decoder_needs_causal_mixers(argument):
    message = rf"`{argument}` must be causal.*'mb_conv'.*`decoder_mixer`.*`num_decoder_layers=0`.*Received"
    with pytest.raises(ValueError, match=message):
        Seq2SeqBackbone(**SMALL, **{argument: "mb_conv"})
    assert Seq2SeqBackbone(**{**SMALL, "num_decoder_layers": 0}, mixer="mb_conv").decoder is None


class TestMergedPositions:
    def test_the_parts_are_the_functional_model_and_the_steps(self):
        backbone = Seq2SeqBackbone(**POOLED)
        whole = backbone(
            {
                "encoder_token_ids": IDS,
                "encoder_padding_mask": MASK,
                "decoder_token_ids": DECODER_IDS,
                "decoder_padding_mask": np.ones_like(DECODER_IDS),
            }
        )
        encoded = backbone.encode(IDS, MASK)
        assert encoded.shape == (2, 3, 16)
        np.testing.assert_array_equal(
            backbone.encoder_output_mask(MASK), [[True, True, True], [True, True, False]]
        )
        decoded = backbone.decode(DECODER_IDS, encoded, MASK)
        np.testing.assert_allclose(whole["decoder_sequence_output"], decoded, atol=REORDERED)
        state = backbone.init_decoder_state(encoded, MASK, max_length=4)
        stepped, _ = backbone.decode_step(DECODER_IDS, state, 0)
        np.testing.assert_allclose(stepped, decoded, atol=REORDERED)

    @pytest.mark.parametrize("pooling", ["mean", "mean_max"])
    def test_padding_does_not_change_the_answer(self, pooling):
        backbone = Seq2SeqBackbone(**POOLED)
        classifier = TextClassifier(backbone, 3, pooling=pooling)
        longer = np.pad(IDS, [[0, 0], [0, 6]], constant_values=9)
        answers = [
            classifier({"token_ids": ids, "padding_mask": np.arange(ids.shape[1]) < LENGTHS})
            for ids in (IDS, longer)
        ]
        np.testing.assert_allclose(answers[0], answers[1], atol=REORDERED)
        alone = classifier({"token_ids": IDS[1:, :7], "padding_mask": MASK[1:, :7]})
        np.testing.assert_allclose(answers[0][1:], alone, atol=REORDERED)

    def test_the_maximum_over_the_tokens(self):
        encoder = Seq2SeqBackbone(**{**POOLED, "pool_size": [3, 1, 1, 1]}).encoder
        x, seen = np.random.default_rng(0).normal(size=[2, 13, 16]).astype("float32"), []
        first = encoder.layers[0]
        original, first.call = first.call, lambda x, **masks: seen.append((x, masks)) or x
        encoder(x, padding_mask=tf.constant(MASK))
        first.call = original
        (pooled, masks), expected = seen[0], np.zeros([2, 5, 16])
        for row, start in np.ndindex(2, 5):
            tokens = [x[row, i] for i in range(3 * start, min(3 * start + 3, LENGTHS[row, 0]))]
            if tokens:
                expected[row, start] = np.max(tokens, axis=0)
        np.testing.assert_array_equal(pooled, expected.astype("float32"))
        np.testing.assert_array_equal(masks["padding_mask"], np.arange(5) < -(-LENGTHS // 3))

    def test_cost_and_receptive_field(self):
        arguments = {**POOLED, "mixer": "dilated_conv", "kernel_size": 3, "pool_size": [1, 2, 1, 3]}
        backbone, whole = Seq2SeqBackbone(**arguments), Seq2SeqBackbone(**{**arguments, "pool_size": 1})
        assert backbone.count_params() == backbone.cost(60, 4)["parameters"] == whole.count_params()
        layer = whole.encoder.layers[0].cost(60)["multiply_adds"]
        encoder = layer + 2 * layer // 2 + layer // 6
        assert backbone.encoder.cost(60)["multiply_adds"] == encoder
        x = tf.constant(np.random.default_rng(0).normal(size=[1, 60, 16]).astype("float32"))
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(backbone.encoder(x)[0, 5] ** 3)
        reached = np.flatnonzero(np.abs(tape.gradient(y, x)[0]).max(-1))
        # A maximum hands its gradient to one of its inputs a channel, so that few at the rim may be missed.
        assert np.ptp(reached) + 1 <= backbone.encoder.receptive_field(60) == 3 + 1 + 4 + 4 + 4 + 12
        assert np.ptp(reached) + 1 > 20

    def test_what_needs_every_position_is_refused(self):
        backbone = Seq2SeqBackbone(**POOLED)
        with pytest.raises(ValueError, match=r"`segment_ids` must be None: pool_sizes=\[1, 2, 1, 3\]"):
            backbone.encode(IDS, segment_ids=MASK.astype("int32"))
        with pytest.raises(ValueError, match=r"masked_lm needs .*Received: pool_size=\[1, 2, 1, 3\]"):
            build_objectives(["masked_lm"], 8)[0].check(backbone)
        with pytest.raises(ValueError, match=r"`pool_size` must have one entry per layer.*\[2\]"):
            Seq2SeqBackbone(**{**POOLED, "pool_size": [2]})
        with pytest.raises(ValueError, match=r"`pool_size` must be an int >= 1.*0"):
            Seq2SeqBackbone(**{**POOLED, "pool_size": 0})


@pytest.mark.parametrize(
    ("mixer", "receptive_field", "pooling"),
    [
        pytest.param("dynamic_conv", 5, "mean", marks=pytest.mark.slow),
        pytest.param("cross_segment_attention", 12, "mean", marks=pytest.mark.slow),
        pytest.param("linear_attention_on_top", 12, "mean", marks=pytest.mark.slow),
        pytest.param("latent_attention_on_top", 12, "mean", marks=pytest.mark.slow),
        ("dynamic_conv", 5, "pair"),
    ],
)
def test_what_relates_two_texts(mixer, receptive_field, pooling):
    """Are the marks of the two texts of a row, 6 positions apart, the same?

    A text without its mark says nothing about the label, so with mean pooling the logit of an encoder whose
    outputs see one mark each is a sum of what each mark says: no such sum is right on more than three of
    the four pairs, and none is better than a guess on the average, ln 2. Attention on top relates them, and
    so does a dual encoder, whose head is given how the two texts differ.
    """
    marks = np.array([[3, 3], [3, 4], [4, 3], [4, 4]])
    ids = np.full([4, 12], 9)
    ids[:, [2, 8]] = marks
    ids[:, [5, 11]] = 1
    inputs = {"token_ids": ids, "padding_mask": ids != 0}
    labels = (marks[:, 0] == marks[:, 1]).astype("int32")
    keras.utils.set_random_seed(0)
    arguments = {**SMALL, "num_layers": 2, "num_decoder_layers": 0}
    backbone = Seq2SeqBackbone(**arguments, mixer=mixer, kernel_size=3)
    assert backbone.cost(12)["receptive_field"] == receptive_field
    classifier = TextClassifier(backbone, 2, pooling=pooling, dropout=0.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    classifier.compile(optimizer=keras.optimizers.Adam(3e-3), loss=loss)
    steps = {name: np.tile(value, [200, 1]) for name, value in inputs.items()}  # quicker than epochs
    classifier.fit(steps, np.tile(labels, 200), batch_size=4, shuffle=False, verbose=0)
    found, _ = classifier.evaluate(inputs, labels, verbose=0)
    if receptive_field < 6 and pooling == "mean":
        assert found > np.log(2) - 1e-4  # rounding
    else:
        assert found < 0.1
