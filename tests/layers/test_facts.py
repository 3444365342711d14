"""A use that breaks a fact raises, naming the argument, the rule and the value."""

import pathlib
import re

import pytest
import tensorflow as tf

from convnlp import testing
from convnlp.layers import (
    MIXERS,
    ConvS2S,
    DilatedConv,
    DynamicConv,
    ExternalAttention,
    FeedForwardStack,
    FocalAttention,
    FourierMixing,
    GatedDilatedConv,
    GatedLongConv,
    LatentAttention,
    LightweightConv,
    LinearAttention,
    Linformer,
    MatrixDecomposition,
    MBConv,
    MLPMixer,
    Muse,
    OutlookAttention,
    RelativeAttention,
    ResMLP,
    SelfAttention,
    SpatialGating,
    Synthesizer,
    TokenMixer,
    build_mixer,
    register_mixer,
)
from convnlp.testing import DIM, facts
from tests.mixer_table import MIXER_TABLE


class Average(TokenMixer):
    """A mixer of which every fact is False."""

    name = "average"
    supports_causal = False
    supports_step = False
    supports_packing = False
    pad_length_invariant = False
    knows_order = False

    def mix(self, x, masks, training):
        return tf.reduce_mean(x, 1, keepdims=True) + tf.zeros_like(x)


@pytest.mark.parametrize("function", [f for f in testing.SUITE if f.__module__ == facts.__name__])
def test_what_a_mixer_cannot_do_is_refused(function, own_mixers):
    """The mixers of the table can do most of it."""
    register_mixer(Average)
    (check,) = [check for check in testing.checks("average") if check.function is function]
    check()


def make(cls, **arguments):
    """`cls` with the typical arguments of its row in the table, which `arguments` override."""
    return cls(**{"hidden_dim": DIM, **MIXER_TABLE[cls.name].variants[0], **arguments})


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
        (GatedDilatedConv, "gate_dropout", 1.0),
        (ConvS2S, "dropout", 1.0),
        (Muse, "kernel_sizes", [0]),
        (Muse, "kernel_sizes", 0),
        (Muse, "kernel_sizes", None),
        (Muse, "intermediate_dim", 0),
        (MBConv, "squeeze_ratio", 0),
        (MBConv, "squeeze_ratio", "0.3"),
        (MBConv, "expansion", 0.5),
        (RelativeAttention, "max_sequence_length", 0),
        (Synthesizer, "max_sequence_length", 0),
        (Synthesizer, "modes", "sparse"),
        (FourierMixing, "fixed_length", 0),
        (SpatialGating, "intermediate_dim", 7),
        (SpatialGating, "tiny_attention_dim", -1),
        (MLPMixer, "token_dim", 0),
        (FeedForwardStack, "expansion", 0),
        (ResMLP, "layer_scale_init", 0.0),
        (ResMLP, "layer_scale_init", float("inf")),
        (ResMLP, "layer_scale_init", "small"),
        (ResMLP, "matrix_heads", 3),
        (SpatialGating, "matrix_heads", 3),
        (ExternalAttention, "memory_size", 0),
        (LinearAttention, "num_heads", 3),
        (LinearAttention, "feature_dim", 0),
        (LinearAttention, "short_kernel_size", 0),
        (LatentAttention, "num_latents", 0),
        (Linformer, "num_sums", 0),
        (OutlookAttention, "window_size", 0),
        (OutlookAttention, "num_heads", 3),
        (OutlookAttention, "dropout", 1.0),
        (FocalAttention, "window_size", 0),
        (FocalAttention, "num_windows", 0),
        (FocalAttention, "pool_sizes", [1]),
        (FocalAttention, "pool_sizes", None),
        (FocalAttention, "pool_sizes", ()),
        (FocalAttention, "pool_sizes", (4, 4)),
        (ExternalAttention, "memory_heads", 3),
        (LatentAttention, "dropout", 1.0),
        (GatedLongConv, "num_heads", 3),
        (GatedLongConv, "num_waves", 0),
        (MatrixDecomposition, "rank", 0),
        (MatrixDecomposition, "num_steps", 0),
        (MatrixDecomposition, "seed", -1),
    ],
)
def test_bad_arguments_are_named(cls, argument, value):
    with pytest.raises(ValueError, match=rf"`{argument}` must .*Received: .*{value}"):
        make(cls, **{argument: value})


def test_one_size_needs_no_list():
    assert make(Muse, kernel_sizes=5).kernel_sizes == (5,)
    assert make(FocalAttention, pool_sizes=5).pool_sizes == [5]


def test_the_page_of_models_states_the_facts():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    rows = re.findall(r"\| `(\w+)` \| .* \| (yes|no) \| (.*) \| (yes|no) \|", page)
    stated = {
        name: (decoder == "yes", not length.startswith("any"), gate == "yes")
        for name, decoder, length, gate in rows
    }
    assert stated == {
        name: (cls.supports_causal, cls.needs_max_length, cls.gated) for name, cls in MIXERS.items()
    }


def test_the_wrong_width_is_named():
    with pytest.raises(ValueError, match=r"last axis of `x` must be hidden_dim = 8.*Received: shape .*6"):
        make(LightweightConv)(tf.ones([1, 2, 6]))


def test_build_mixer_names_what_it_does_not_know():
    with pytest.raises(
        ValueError, match=r"`mixer` must be one of .*lightweight_conv.*Received: mixer='lightweight'"
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
