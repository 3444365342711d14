"""Values against the loops of tests/oracles.py."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels
from tests.mixer_table import BATCH, MIXER_TABLE, TIME, all_cases, random_rows

# Float32 sums of at most a few dozen terms of size one, against float64: some 1e-7 each.
TOLERANCE = 1e-5
SEGMENTS = np.array([[1, 1, 1, 2, 2, 3, 0], [1, 2, 2, 2, 2, 0, 0]], "int32")


def oracle(case, mixer, x, visible):
    """The oracle's values of all rows, [B,T,D]."""
    return np.stack(
        [
            MIXER_TABLE[case.name].oracle(mixer, row.astype("float64"), seen)
            for row, seen in zip(x, visible, strict=True)
        ]
    )


@all_cases
def test_values(case):
    mixer, x = case.build(), random_rows()
    expected = oracle(case, mixer, x.numpy(), np.ones([BATCH, TIME, TIME], bool))
    np.testing.assert_allclose(mixer(x), expected, atol=TOLERANCE)


@all_cases
@pytest.mark.parametrize("form", ["fast", "plain", "inference"])
def test_values_with_pads_and_segments(case, form):
    mixer, x = case.build(), random_rows()
    tokens = SEGMENTS > 0
    visible = np.broadcast_to(tokens[:, np.newaxis], [BATCH, TIME, TIME])
    with kernels.implementation(form):
        padded = mixer(x, padding_mask=tf.constant(tokens))
        np.testing.assert_allclose(
            padded[tokens], oracle(case, mixer, x.numpy(), visible)[tokens], atol=TOLERANCE
        )
        if case.facts.supports_packing:
            visible = visible & (SEGMENTS[:, np.newaxis] == SEGMENTS[:, :, np.newaxis])
            packed = mixer(x, segment_ids=tf.constant(SEGMENTS))
            np.testing.assert_allclose(
                packed[tokens], oracle(case, mixer, x.numpy(), visible)[tokens], atol=TOLERANCE
            )
