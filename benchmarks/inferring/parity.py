"""Whether a variant computes the same as our model."""

import numpy as np

from benchmarks.inferring.variants import BOUNDS


def centred(outputs):
    """Returns logits [B,C] minus the mean of each row: the same for logits and their log-probabilities."""
    outputs = np.asarray(outputs, np.float64)
    return outputs - outputs.mean(axis=1, keepdims=True)


def error(outputs, reference):
    """Returns the largest difference from centred logits [B,C]; inf for another shape or for NaN or inf."""
    found = centred(outputs)
    if found.shape != reference.shape or not np.isfinite(found).all():
        return float("inf")
    return float(np.abs(found - reference).max())


def bound(variant, reference):
    """Returns the largest difference that a variant may have.

    Args:
        variant: `benchmarks.inferring.variants.Variant`.
        reference: dict, name of an input -> centred logits [B,C].
    """
    return BOUNDS[variant.precision] * max(float(np.abs(logits).max()) for logits in reference.values())
