"""Compares values with an oracle: the same equation as a plain loop in float64."""

import numpy as np
import tensorflow as tf

from convnlp import kernels
from convnlp.testing.cases import BATCH, TIME, random_rows

# Float32 sums of at most a few dozen terms of size one, against float64: some 1e-7 each.
TOLERANCE = 1e-5
SEGMENTS = np.array([[1, 1, 1, 2, 2, 3, 0], [1, 2, 2, 2, 2, 0, 0]], "int32")


def expected_values(case, mixer, x, visible):
    """Returns the oracle's values of all rows, [B,T,D]."""
    return np.stack(
        [case.oracle(mixer, row.astype("float64"), seen) for row, seen in zip(x, visible, strict=True)]
    )


def values_are_the_oracles(case):
    """Checks whole rows."""
    mixer, x = case.build(), random_rows()
    expected = expected_values(case, mixer, x.numpy(), np.ones([BATCH, TIME, TIME], bool))
    np.testing.assert_allclose(mixer(x), expected, atol=TOLERANCE)


def values_with_pads_and_segments_are_the_oracles(case):
    """Checks every form of the kernels; see `convnlp.kernels.implementation`."""
    mixer, x = case.build(), random_rows()
    tokens = SEGMENTS > 0
    padded = np.broadcast_to(tokens[:, np.newaxis], [BATCH, TIME, TIME])
    uses = [({"padding_mask": tf.constant(tokens)}, padded)]
    if case.facts.supports_packing:
        same = SEGMENTS[:, np.newaxis] == SEGMENTS[:, :, np.newaxis]
        uses.append(({"segment_ids": tf.constant(SEGMENTS)}, padded & same))
    for masks, visible in uses:
        expected = expected_values(case, mixer, x.numpy(), visible)[tokens]
        for form in ("fast", "plain", "inference", "edge"):
            with kernels.implementation(form):
                y = mixer(x, **masks)[tokens]
            np.testing.assert_allclose(y, expected, atol=TOLERANCE, err_msg=f"{form} form, {list(masks)}")
