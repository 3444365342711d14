"""One table of mixers: every suite in tests/layers runs over all its rows.

A new mixer adds a row: its oracle, and the constructor arguments worth telling apart. Everything else the
suites need they read from the mixer's facts.
"""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp.layers import MIXERS, build_mixer
from tests import oracles

BATCH, TIME, DIM = 2, 7, 8


@dataclasses.dataclass(frozen=True)
class Row:
    """What the suites know of a mixer.

    Args:
        oracle: function of (mixer, x [T,D], visible [T,T]), see tests/oracles.py.
        variants: list of dicts of constructor arguments beside `hidden_dim` and `causal`; the first is the
            typical one.
    """

    oracle: Callable
    variants: list


MIXER_TABLE = {
    "lightweight_conv": Row(
        oracles.lightweight_conv,
        [
            {"num_heads": 2, "kernel_size": 3},
            {"num_heads": 8, "kernel_size": 4, "dilation_rate": 2},
            {"num_heads": 1, "kernel_size": 9, "weight_softmax": False},
        ],
    ),
    "dynamic_conv": Row(
        oracles.dynamic_conv,
        [
            {"num_heads": 2, "kernel_size": 3},
            {"num_heads": 8, "kernel_size": 4, "dilation_rate": 2},
            {"num_heads": 1, "kernel_size": 9, "weight_softmax": False},
        ],
    ),
    "dilated_conv": Row(
        oracles.dilated_conv,
        [
            {"kernel_size": 3, "dilation_rate": 2},
            {"kernel_size": 4},
            {"kernel_size": 2, "dilation_rate": 5, "weight_softmax": True},
        ],
    ),
    "self_attention": Row(oracles.self_attention, [{"num_heads": 2}, {"num_heads": 8}]),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One way of building one mixer."""

    name: str
    options: dict
    causal: bool

    def build(self, dtype="float32", seed=0):
        """The mixer with its weights; equal seeds give equal weights whatever the dtype."""
        keras.utils.set_random_seed(seed)
        mixer = build_mixer(self.name, hidden_dim=DIM, causal=self.causal, dtype=dtype, **self.options)
        mixer.build((None, None, DIM))
        return mixer

    @property
    def facts(self):
        """The mixer's class, for its facts."""
        return MIXERS[self.name]

    def __str__(self):
        options = "-".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.name}-{options}-{'causal' if self.causal else 'both_sides'}"


def _cases(variants):
    return [
        Case(name, options, causal)
        for name, row in MIXER_TABLE.items()
        for options in row.variants[:variants]
        for causal in (False, True)
        if not causal or MIXERS[name].supports_causal
    ]


CASES = _cases(None)
all_cases = pytest.mark.parametrize("case", CASES, ids=str)
typical_cases = pytest.mark.parametrize("case", _cases(1), ids=str)
causal_cases = pytest.mark.parametrize("case", [case for case in CASES if case.causal], ids=str)


def random_rows(batch=BATCH, time=TIME, seed=1):
    """Float32 tensor [B,T,D] from a normal distribution."""
    return tf.constant(np.random.default_rng(seed).normal(size=[batch, time, DIM]).astype("float32"))
