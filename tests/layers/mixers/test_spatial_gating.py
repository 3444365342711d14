"""What SpatialGating has beyond the contract: where it starts, and texts of any length."""

import numpy as np
import tensorflow as tf

from convnlp.layers import SpatialGating
from convnlp.testing import DIM, random_rows


def test_it_starts_as_a_feed_forward_layer():
    x = random_rows().numpy()
    mixer = SpatialGating(DIM, 2 * DIM, max_sequence_length=24)
    y = mixer(x)
    halves = tf.nn.gelu(x @ mixer.input_projection.kernel.numpy())[..., :DIM]
    plain = halves @ mixer.output_projection.kernel.numpy()
    # The gate is 1 plus at most T weights of 1e-3 / L each, times normed values of size 1.
    np.testing.assert_allclose(y, plain, atol=2e-3)
    assert not np.array_equal(y, plain)


def test_the_toeplitz_form_takes_texts_of_any_length_and_depends_on_distances_only():
    mixer = SpatialGating(DIM, 2 * DIM, max_sequence_length=3, toeplitz=True)
    text = random_rows(batch=1, time=4)
    y = mixer(tf.pad(text, [[0, 0], [5, 5], [0, 0]]))  # what is zero stays zero behind a norm without offset
    np.testing.assert_allclose(y[:, 5:9], mixer(text), atol=1e-5)  # float32 sums with further zeros
