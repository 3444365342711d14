"""Options of mixers: which there are, who gets them, and what is refused."""

import doctest

import pytest

from convnlp.layers import MIXERS, TokenMixer, mixer_options, register_mixer
from convnlp.layers.mixer_options import options_of, route_options


def test_examples():
    done = doctest.testmod(mixer_options)
    assert done.attempted
    assert not done.failed


def test_every_mixer_but_the_skeletons_part_is_open():
    for name in MIXERS:
        assert not {"hidden_dim", "causal", "output_init_scale", "kwargs", "name"} & set(options_of(name))
    assert set(options_of("spatial_gating")) == {
        "intermediate_dim",
        "matrix_heads",
        "max_sequence_length",
        "tiny_attention_dim",
        "toeplitz",
    }


@pytest.mark.parametrize(
    ("mixer", "option", "text", "value"),
    [
        ("spatial_gating", "tiny_attention_dim", "64", 64),
        ("spatial_gating", "toeplitz", "true", True),
        ("spatial_gating", "toeplitz", "False", False),
        ("lightweight_conv", "num_heads", "2", 2),
        ("lightweight_conv", "kernel_dropout", "0.1", 0.1),
        ("lightweight_conv", "kernel_dropout", 0, 0.0),
        ("dynamic_conv", "double_gate", "true", True),
        ("synthesizer", "modes", "dense", ["dense"]),
        ("synthesizer", "modes", "random,attention", ["random", "attention"]),
        ("synthesizer", "modes", ("random", "attention"), ["random", "attention"]),
        ("muse", "kernel_sizes", 5, [5]),
        ("muse", "kernel_sizes", "(3, 7)", [3, 7]),
        ("fourier", "fixed_length", 9, 9),
    ],
)
def test_values_have_the_type_of_the_default(mixer, option, text, value):
    (found,) = route_options({option: text}, [mixer])[mixer].values()
    assert found == value
    assert type(found) is type(value)


def test_an_option_goes_to_all_that_have_it_and_those_of_one_mixer_come_first():
    mixers = ["dynamic_conv", "self_attention", "dynamic_conv"]
    options = {"dynamic_conv": {"num_heads": 4}, "num_heads": 2, "kernel_dropout": 0.1}
    assert route_options(options, mixers) == {
        "dynamic_conv": {"num_heads": 4, "kernel_dropout": 0.1},
        "self_attention": {"num_heads": 2},
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"window": 4},
            r"^`mixer_options.window` must be an option of the mixer: external_attention has memory_heads, "
            r"memory_size; conv_s2s has dropout, kernel_size. Received: mixer_options.window=4$",
        ),
        ({"causal": True}, r"`mixer_options.causal` must be an option of the mixer"),
        ({"hidden_dim": 3}, r"`mixer_options.hidden_dim` must be an option of the mixer"),
        (
            {"memory_size": "many"},
            r"`mixer_options.memory_size` must be a whole number for external_att.*many",
        ),
        ({"memory_size": True}, r"`mixer_options.memory_size` must be a whole number.*True"),
        ({"dropout": "much"}, r"`mixer_options.dropout` must be a number for conv_s2s.*'much'"),
        ({"muse": {"dropout": 0.1}}, r"`mixer_options.muse` must be the options of a mixer of the model"),
        ({"conv_s2s": 3}, r"`mixer_options.conv_s2s` must be the options of a mixer.*conv_s2s=3"),
        (
            {"conv_s2s": {"memory_size": 3}},
            r"`mixer_options.conv_s2s.memory_size` must be an option of the mixer: conv_s2s has drop",
        ),
    ],
)
def test_what_no_mixer_has_is_refused_in_one_line(options, message):
    with pytest.raises(ValueError, match=message) as error:
        route_options(options, ["external_attention", "conv_s2s"])
    assert "\n" not in str(error.value)


def test_options_of_a_mixer_of_your_own(own_mixers):
    @register_mixer
    class Shift(TokenMixer):
        name = "shift"

        def __init__(self, hidden_dim, distance=1, sides="both", causal=False, **kwargs):
            super().__init__(hidden_dim, causal, **kwargs)

    assert route_options({"distance": "3", "sides": "left"}, ["shift"]) == {
        "shift": {"distance": 3, "sides": "left"}
    }
    with pytest.raises(ValueError, match=r"must be an option of the mixer: shift has distance, sides"):
        route_options({"speed": 1}, ["shift"])
