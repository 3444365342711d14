"""What MatrixDecomposition has beyond the contract: it approximates, and one step of it has a gradient."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp.layers import MatrixDecomposition, build_mixer
from convnlp.testing import DIM, random_rows

RANK = 3


def with_identity_around(**options):
    """A mixer that is relu and the decomposition alone."""
    mixer = MatrixDecomposition(DIM, rank=RANK, **options)
    mixer.build((None, None, DIM))
    mixer.set_weights([np.eye(DIM)] * 2)
    return mixer


def low_rank(time=12):
    """Float32 [1,T,D], a product of non-negative factors of width RANK."""
    rng = np.random.default_rng(0)
    return (rng.uniform(size=[1, time, RANK]) @ rng.uniform(size=[RANK, DIM])).astype("float32")


def error(mixer, x):
    return np.linalg.norm(mixer(x) - x) / np.linalg.norm(x)


def test_each_further_step_comes_nearer_to_a_text_of_that_rank():
    x = low_rank()
    errors = [error(with_identity_around(num_steps=steps), x) for steps in (1, 6, 50, 1000)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.02 < errors[0]


def test_an_approximation_has_the_rank():
    y = with_identity_around()(random_rows(batch=1, time=12))[0]
    values = np.linalg.svd(y, compute_uv=False)
    assert (values[RANK:] < 1e-5 * values[0]).all()
    assert (values[:RANK] > 1e-3 * values[0]).all()


def test_first_values_are_those_of_the_seed_in_every_process():
    mixer, other = with_identity_around(), with_identity_around(seed=1)
    bases = mixer.first_bases
    np.testing.assert_allclose(np.linalg.norm(bases, axis=1), 1, rtol=1e-6)
    # Of TensorFlow's Philox generator, which is documented to be the same in all its versions.
    np.testing.assert_allclose(bases[0, :3], [0.1148167, 0.3841507, 0.4353266], rtol=1e-6)
    assert (bases >= 0).all()
    assert not np.allclose(bases, other.first_bases)


@pytest.mark.parametrize("num_steps", [1, 4])
def test_the_gradient_is_that_of_the_last_step(num_steps):
    """By finite differences of a step in float64, from what the steps before it have found."""
    x = tf.nn.relu(random_rows(batch=1, time=5))
    z, mixer = x[0].numpy().astype("float64"), with_identity_around(num_steps=num_steps)
    d = np.asarray(mixer.first_bases, "float64")
    logits = np.exp(z @ d.T)
    c = logits / logits.sum(1, keepdims=True)
    c = c * (z @ d.T) / (c @ d @ d.T + 1e-6)

    def step(z, d, c):
        d = d * (c.T @ z) / (c.T @ c @ d + 1e-6)
        return d, c * (z @ d.T) / (c @ d @ d.T + 1e-6)

    for _ in range(num_steps - 1):
        d, c = step(z, d, c)
    weighted, direction = np.random.default_rng(5).normal(size=[2, *z.shape])
    direction *= z > 0  # where relu has a slope

    def value(z):
        bases, codes = step(z, d, c)
        return np.sum(codes @ bases * weighted)

    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(tf.cast(mixer(x)[0], tf.float64) * weighted)
    slope = (value(z + 1e-6 * direction) - value(z - 1e-6 * direction)) / 2e-6
    np.testing.assert_allclose(np.sum(tape.gradient(loss, x)[0] * direction), slope, rtol=1e-3)


def test_every_layer_of_a_graph_and_a_process_begins_alike():
    first = build_mixer("matrix_decomposition", hidden_dim=DIM, rank=RANK)
    second = build_mixer("matrix_decomposition", hidden_dim=DIM, rank=RANK)
    x = random_rows()
    first(x)
    tf.function(second)(x)  # built while a graph is traced
    np.testing.assert_array_equal(first.first_bases, second.first_bases)
