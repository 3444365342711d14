"""The building blocks of losses, called as an objective of your own may call them."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels, losses


@pytest.mark.parametrize("form", ["plain", "fast"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_targets_of_any_integer_type(form, dtype):
    """A small test must not pass if a run, whose tensors are large enough for the fast form, would fail."""
    rng = np.random.default_rng(0)
    logits = tf.constant(rng.normal(size=[4, 3, 11]).astype("float32"))
    targets = rng.integers(0, 11, [4, 3])
    mask = rng.integers(0, 2, [4, 3]).astype(bool)
    mask[0] = False  # a row that counts nowhere
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    hot = np.eye(11)[targets]
    with kernels.implementation(form), tf.GradientTape() as tape:
        tape.watch(logits)
        total, weight = losses.cross_entropy(logits, targets.astype(dtype), mask)
    np.testing.assert_allclose(total, -(np.log(shares) * hot).sum(-1)[mask].sum(), rtol=1e-5)
    assert float(weight) == mask.sum()
    expected = (shares - hot) * mask[..., np.newaxis]
    np.testing.assert_allclose(tape.gradient(total, logits), expected, atol=1e-6)
    targets[:, 0] = np.argmax(logits[:, 0], -1)  # in the mask and outside it
    hits = losses.hits(logits, targets.astype(dtype), mask)
    assert float(hits) == ((np.argmax(logits, -1) == targets) & mask).sum()
