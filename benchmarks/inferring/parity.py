"""Whether a variant computes what our model computes."""

import numpy as np

from benchmarks.inferring.variants import BOUNDS


def centred(outputs):
    """Logits [B,C] less the mean of their row: what log-probabilities and logits have in common."""
    outputs = np.asarray(outputs, np.float64)
    return outputs - outputs.mean(axis=1, keepdims=True)


def error(outputs, reference):
    """The greatest difference from centred logits [B,C]; infinite for another shape or what is no number."""
    found = centred(outputs)
    if found.shape != reference.shape or not np.isfinite(found).all():
        return float("inf")
    return float(np.abs(found - reference).max())


def bound(variant, reference):
    """The greatest difference that a variant may have.

    Args:
        variant: `benchmarks.inferring.variants.Variant`.
        reference: dict, name of an ask -> centred logits [B,C].
    """
    return BOUNDS[variant.precision] * max(float(np.abs(logits).max()) for logits in reference.values())
