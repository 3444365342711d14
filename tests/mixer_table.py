"""One table of mixers: every suite in tests/layers runs over all its rows.

A new mixer adds a row: its oracle, and the constructor arguments worth telling apart. Everything else the
suites need they read from the mixer's facts.
"""

import dataclasses
from collections.abc import Callable

import pytest

from convnlp.testing import cases
from tests.oracles import (
    attention,
    convolutions,
    decomposition,
    fourier,
    linear_attention,
    long_conv,
    muse,
    position_mixing,
)

LONGEST = {"max_sequence_length": 24}  # more than any suite asks for


@dataclasses.dataclass(frozen=True)
class Row:
    """What the suites know of a mixer.

    Args:
        oracle: function of (mixer, x [T,D], visible [T,T]), see tests/oracles.
        variants: list of dicts of constructor arguments beside `hidden_dim` and `causal`; the first is the
            typical one.
        copies: bool, see `convnlp.testing.Case`.
    """

    oracle: Callable
    variants: list
    copies: bool = True


MIXER_TABLE = {
    "lightweight_conv": Row(
        convolutions.lightweight_conv,
        [
            {"num_heads": 2, "kernel_size": 3},
            {"num_heads": 8, "kernel_size": 4, "dilation_rate": 2},
            {"num_heads": 1, "kernel_size": 9, "weight_softmax": False},
        ],
    ),
    "dynamic_conv": Row(
        convolutions.dynamic_conv,
        [
            {"num_heads": 2, "kernel_size": 3},
            {"num_heads": 8, "kernel_size": 4, "dilation_rate": 2},
            {"num_heads": 1, "kernel_size": 9, "weight_softmax": False},
        ],
    ),
    "dilated_conv": Row(
        convolutions.dilated_conv,
        [
            {"kernel_size": 3, "dilation_rate": 2},
            {"kernel_size": 4},
            {"kernel_size": 2, "dilation_rate": 5, "weight_softmax": True},
        ],
    ),
    "self_attention": Row(attention.self_attention, [{"num_heads": 2}, {"num_heads": 8}]),
    "gated_dilated_conv": Row(
        convolutions.gated_dilated_conv, [{"dilation_rate": 2}, {"kernel_size": 4, "gate_dropout": 0.0}]
    ),
    "conv_s2s": Row(convolutions.conv_s2s, [{"kernel_size": 3}, {"kernel_size": 4, "dropout": 0.1}]),
    "local_attention": Row(
        attention.local_attention,
        [
            {"num_heads": 2, "window_size": 4, "dilation_rate": 2},
            {"num_heads": 8, "window_size": 3},
        ],
    ),
    "focal_attention": Row(
        attention.focal_attention,
        [
            {"num_heads": 2, "window_size": 3, "pool_sizes": (2, 3), "num_windows": 2},
            {"num_heads": 8, "window_size": 4, "pool_sizes": (2, 3, 6), "num_windows": 1},
        ],
    ),
    "mb_conv": Row(
        convolutions.mb_conv,
        [{"kernel_size": 3, "expansion": 2}, {"kernel_size": 4, "expansion": 1, "squeeze_ratio": 0.3}],
    ),
    "relative_attention": Row(
        attention.relative_attention,
        [{"num_heads": 2, "max_sequence_length": 20}, {"num_heads": 8, "max_sequence_length": 30}],
    ),
    "muse": Row(
        muse.muse,
        [
            {"num_heads": 2, "intermediate_dim": 12, "kernel_sizes": (3, 4)},
            {"num_heads": 8, "intermediate_dim": 8, "kernel_sizes": (15,)},
            {"num_heads": 2, "intermediate_dim": 8, "kernel_sizes": ()},
        ],
    ),
    "synthesizer": Row(
        attention.synthesizer,
        [
            {"modes": ["random"], "num_heads": 2, **LONGEST},
            {"modes": ["dense", "attention"], "num_heads": 2, **LONGEST},
            {"modes": ["factorized_dense"], "num_heads": 1, **LONGEST},
            {"modes": "attention", "num_heads": 2, **LONGEST},
            {"modes": ["frozen_random", "factorized_random"], "num_heads": 8, "rank": 3, **LONGEST},
        ],
        copies=False,
    ),
    "fourier": Row(
        fourier.fourier,
        [{}, {"fixed_length": 24}, {"normalize": False}],
        copies=False,
    ),
    "spatial_gating": Row(
        position_mixing.spatial_gating,
        [
            {"intermediate_dim": 16, **LONGEST},
            {"intermediate_dim": 6, "tiny_attention_dim": 4, **LONGEST},
            {"intermediate_dim": 16, "toeplitz": True, "max_sequence_length": 5},
            {"intermediate_dim": 16, "matrix_heads": 4, **LONGEST},
            {"intermediate_dim": 12, "toeplitz": True, "matrix_heads": 2, "max_sequence_length": 5},
        ],
    ),
    "mlp_mixer": Row(position_mixing.mlp_mixer, [{"token_dim": 16, **LONGEST}]),
    "feed_forward_stack": Row(position_mixing.feed_forward_stack, [{"expansion": 1, **LONGEST}]),
    "res_mlp": Row(
        position_mixing.res_mlp,
        [
            {"layer_scale_init": 1.0, **LONGEST},
            {"layer_scale_init": 1.0, "matrix_heads": 4, **LONGEST},
            {"affine": False, **LONGEST},
        ],
    ),
    "outlook_attention": Row(
        attention.outlook_attention,
        [
            {"num_heads": 2, "window_size": 3},
            {"num_heads": 8, "window_size": 4},
        ],
    ),
    "external_attention": Row(
        attention.external_attention, [{"memory_size": 16}, {"memory_size": 8, "memory_heads": 2}]
    ),
    "linformer": Row(
        attention.linformer,
        [{"num_heads": 2, "num_sums": 4, **LONGEST}, {"num_heads": 4, "num_sums": 9, **LONGEST}],
    ),
    "linear_attention": Row(
        linear_attention.linear_attention,
        [{"num_heads": 2, "feature_dim": 4}, {"num_heads": 8, "short_kernel_size": 2}],
    ),
    "latent_attention": Row(
        attention.latent_attention, [{"num_heads": 2, "num_latents": 4}, {"num_heads": 8, "num_latents": 1}]
    ),
    "gated_long_conv": Row(
        long_conv.gated_long_conv,
        [{"num_heads": 2}, {"num_heads": 8, "num_waves": 3}, {"num_heads": 1, "num_waves": 1}],
    ),
    "matrix_decomposition": Row(
        decomposition.matrix_decomposition, [{"rank": 4}, {"rank": 3, "num_steps": 2, "seed": 7}]
    ),
}


CASES = [
    case for name, row in MIXER_TABLE.items() for case in cases(name, row.variants, row.oracle, row.copies)
]
both_sided_cases = pytest.mark.parametrize(
    "case", [case for case in CASES if case.typical and not case.causal], ids=str
)

# One of each family. A test that asks something of every mixer that the suites have mostly shown asks these,
# and the others as slow tests.
SAMPLE = (
    "dynamic_conv",
    "gated_dilated_conv",
    "self_attention",
    "fourier",
    "spatial_gating",
    "gated_long_conv",
    "latent_attention",
)


def sampled(names):
    """Returns parameters for pytest: the names, those that are not in the sample marked as slow."""
    return [pytest.param(name, marks=[pytest.mark.slow] * (name not in SAMPLE)) for name in names]
