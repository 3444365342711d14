"""A use that breaks a fact raises, naming the argument, the rule and the value."""

import pytest
import tensorflow as tf

from convnlp.layers import (
    MIXERS,
    DilatedConv,
    DynamicConv,
    LightweightConv,
    SelfAttention,
    TokenMixer,
    build_mixer,
)
from tests.mixer_table import DIM, MIXER_TABLE


class Average(TokenMixer):
    """A mixer of which every fact is False."""

    supports_causal = False
    supports_step = False
    supports_packing = False
    pad_length_invariant = False

    def mix(self, x, padding_mask, segment_ids, training):
        return tf.reduce_mean(x, 1, keepdims=True) + tf.zeros_like(x)


def make(cls, **arguments):
    """`cls` with the typical arguments of its row in the table, which `arguments` override."""
    typical = next((MIXER_TABLE[name].variants[0] for name in MIXERS if MIXERS[name] is cls), {})
    return cls(**{"hidden_dim": DIM, **typical, **arguments})


@pytest.mark.parametrize("cls", [Average, *MIXERS.values()])
def test_causal_needs_supports_causal(cls):
    if cls.supports_causal:
        assert make(cls, causal=True).causal
    else:
        with pytest.raises(ValueError, match=r"`causal` must be False.*Received: causal=True"):
            make(cls, causal=True)


@pytest.mark.parametrize("cls", [Average, *MIXERS.values()])
def test_segment_ids_need_supports_packing(cls):
    mixer, x, ids = make(cls), tf.ones([1, 2, DIM]), tf.constant([[1, 2]])
    if cls.supports_packing:
        assert mixer(x, segment_ids=ids).shape == x.shape
    else:
        with pytest.raises(ValueError, match="`segment_ids` must be None"):
            mixer(x, segment_ids=ids)


@pytest.mark.parametrize("cls", [Average, *MIXERS.values()])
def test_steps_need_supports_step_and_causal(cls):
    if cls.supports_step:
        assert make(cls, causal=True).init_state(1, 4)
    else:
        with pytest.raises(ValueError, match=r"supports_step.*Received: Average"):
            make(cls).init_state(1, 4)


@pytest.mark.parametrize("cls", [cls for cls in MIXERS.values() if cls.supports_step])
def test_steps_need_a_causal_mixer(cls):
    with pytest.raises(ValueError, match=r"`causal` must be True.*Received: causal=False"):
        make(cls).init_state(1, 4)


@pytest.mark.parametrize("cls", MIXERS.values())
def test_mixers_with_weights_per_position_take_a_maximal_length(cls):
    accepted = "max_sequence_length" in cls.__init__.__code__.co_varnames
    assert accepted == cls.needs_max_length


@pytest.mark.parametrize(
    ("cls", "argument", "value"),
    [
        (LightweightConv, "hidden_dim", 0),
        (LightweightConv, "num_heads", 3),
        (LightweightConv, "kernel_size", 0),
        (LightweightConv, "kernel_size", 2.0),
        (DynamicConv, "num_heads", -1),
        (DynamicConv, "kernel_dropout", 1.0),
        (DilatedConv, "dilation_rate", 0),
        (DilatedConv, "kernel_size", True),
        (SelfAttention, "num_heads", 5),
        (SelfAttention, "dropout", -0.1),
    ],
)
def test_bad_arguments_are_named(cls, argument, value):
    with pytest.raises(ValueError, match=rf"`{argument}` must .*Received: .*{value}"):
        make(cls, **{argument: value})


def test_the_wrong_width_is_named():
    with pytest.raises(ValueError, match=r"last axis of `x` must be hidden_dim = 8.*Received: shape .*6"):
        make(LightweightConv)(tf.ones([1, 2, 6]))


def test_build_mixer_names_what_it_does_not_know():
    with pytest.raises(
        ValueError, match=r"`mixer` must be one of .*lightweight_conv.*Received: 'lightweight'"
    ):
        build_mixer("lightweight", hidden_dim=8)
    with pytest.raises(
        ValueError, match=r"'self_attention' has no argument `kernel_dropout`.*Received: .*0.1"
    ):
        build_mixer("self_attention", hidden_dim=8, num_heads=2, kernel_dropout=0.1)


def test_build_mixer_hands_on_what_a_mixer_takes():
    shared = {
        "hidden_dim": 8,
        "num_heads": 2,
        "kernel_size": 5,
        "dilation_rate": 3,
        "dropout": 0.1,
        "causal": True,
    }
    dilated = build_mixer("dilated_conv", **shared, weight_softmax=None, dtype="mixed_bfloat16")
    assert (dilated.kernel_size, dilated.dilation_rate, dilated.causal) == (5, 3, True)
    assert dilated.weight_softmax is False
    assert dilated.compute_dtype == "bfloat16"
    assert build_mixer("self_attention", **shared).dropout == 0.1
