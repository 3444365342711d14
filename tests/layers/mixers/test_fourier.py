"""What FourierMixing has beyond the contract: two forms, a fixed length, a text's own transform."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels
from convnlp.layers import FourierMixing
from convnlp.testing import DIM, random_rows


def test_it_is_numpys_transform():
    x = random_rows(time=6).numpy()
    expected = np.fft.fft2(x, axes=(1, 2)).real
    # Float32 sums of 48 terms of size one, against float64.
    np.testing.assert_allclose(FourierMixing(DIM, normalize=False)(x), expected, atol=1e-4)
    np.testing.assert_allclose(FourierMixing(DIM)(x), expected / np.sqrt(6 * DIM), atol=1e-5)


@pytest.mark.parametrize("fixed_length", [None, 16])
def test_fft_and_matrix_products_have_equal_values_and_gradients(fixed_length):
    mixer, x = FourierMixing(DIM, fixed_length=fixed_length), random_rows(time=9)
    results = {}
    for form in ("fast", "plain", "inference"):
        with kernels.implementation(form), tf.GradientTape() as tape:
            tape.watch(x)
            y = mixer(x)
            loss = tf.reduce_sum(y**3)
        results[form] = y.numpy(), tape.gradient(loss, x).numpy()
    for form in ("plain", "inference"):
        for value, expected in zip(results[form], results["fast"], strict=True):
            np.testing.assert_allclose(value, expected, atol=1e-5)  # float32 sums in another order


def test_a_text_has_the_transform_it_has_alone():
    mixer, x = FourierMixing(DIM), random_rows()
    tokens = np.arange(x.shape[1]) < np.array([[3], [7]])
    together = mixer(x, padding_mask=tokens)
    np.testing.assert_allclose(together[0, :3], mixer(x[:1, :3])[0], atol=1e-5)  # another form
    np.testing.assert_allclose(together[1], mixer(x[1:])[0], atol=1e-5)


def test_texts_beyond_the_fixed_length_are_refused():
    with pytest.raises(ValueError, match=r"`x` must have at most fixed_length = 4.*Received: 5"):
        FourierMixing(DIM, fixed_length=4)(tf.ones([1, 5, DIM]))


def test_a_graph_of_unknown_length_refuses_them_too():
    mixer = FourierMixing(DIM, fixed_length=4)
    in_a_graph = tf.function(lambda x: mixer(x), input_signature=[tf.TensorSpec([None, None, DIM])])
    assert in_a_graph(tf.ones([1, 4, DIM])).shape == (1, 4, DIM)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"at most fixed_length = 4 positions.*\[5\]"):
        in_a_graph(tf.ones([1, 5, DIM]))


def test_long_texts_keep_their_precision():
    """Position 1000 times frequency 1000 is an angle of which float32 keeps three decimals."""
    x = np.zeros([1, 1024, 2], "float32")
    x[0, 1000, 0] = 1.0
    with kernels.implementation("plain"):
        y = FourierMixing(2, normalize=False)(x)
    expected = np.cos(2 * np.pi * 1000 * np.arange(1024) / 1024)
    np.testing.assert_allclose(y[0, :, 0], expected, atol=1e-5)
