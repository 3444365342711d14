"""The gradient in parts is the gradient of the whole batch."""

import functools
import json

import numpy as np
import pytest
import tensorflow as tf

from convnlp.training import accumulation
from tests.training.toy import BATCH, Toy


@pytest.mark.parametrize("is_open", [False, True])  # as for texts of several lengths
def test_the_sum_of_the_parts_is_the_whole(is_open):
    toy, unused = Toy(dropout=0), tf.Variable([1.0])
    batch = next(iter(toy.dataset()))
    variables = [v.value for v in toy.model.trainable_variables] + [unused]
    with tf.GradientTape() as tape:
        outputs = toy.loss_fn(batch)
    expected = tape.gradient(outputs["loss_sum"], variables)
    specs = {name: tf.TensorSpec([BATCH, None] if is_open else x.shape, x.dtype) for name, x in batch.items()}

    def in_parts(num_parts, batch):
        gradients, sums = accumulation.gradients_in_parts(
            toy.loss_fn, variables, batch, tf.constant([0, 1]), num_parts
        )
        assert gradients.pop() is None
        return gradients, sums

    for num_parts in (1, 2, BATCH):
        traced = tf.function(functools.partial(in_parts, num_parts), [specs], autograph=False)
        gradients, sums = traced(batch)
        for one, other in zip(gradients, expected, strict=False):
            np.testing.assert_allclose(one, tf.convert_to_tensor(other), rtol=1e-5, atol=1e-6)  # float32
        assert sums.keys() == outputs.keys()
        for name, value in outputs.items():
            assert float(sums[name]) == pytest.approx(float(value), rel=1e-6)
    rows = np.sum(batch["padding_mask"].numpy().reshape([2, -1]), axis=1)
    assert rows[0] != rows[1]  # parts of different weight, so that a mean of their means would show


def test_each_part_draws_for_itself():
    seeds = []

    def loss_fn(batch, seed):
        value = tf.random.stateless_uniform([], seed)
        return {"loss_sum": variable * value, "weight": 1.0, "drawn": (value, value**2)}

    variable = tf.Variable(1.0)
    batch = {"token_ids": tf.zeros([4, 2], tf.int32)}
    step_seed = tf.constant([3, 4])
    (gradient,), sums = tf.function(
        lambda: accumulation.gradients_in_parts(loss_fn, [variable], batch, step_seed, 4), autograph=False
    )()
    seeds = [tf.random.fold_in(step_seed, index) for index in range(4)]
    drawn = np.array([tf.random.stateless_uniform([], seed).numpy() for seed in seeds])
    assert len(set(drawn)) == 4
    np.testing.assert_allclose(gradient, drawn.sum(), rtol=1e-6)  # float32
    np.testing.assert_allclose(sums["drawn"], [drawn.sum(), (drawn**2).sum()], rtol=1e-6)


@pytest.mark.parametrize("clip_norm", [0.0, 1e-2])
def test_a_run_in_parts_is_the_run(tmp_path, clip_norm):
    runs = []
    for parts in (1, 4):
        toy, workdir = Toy(dropout=0), tmp_path / str(parts)
        facts = toy.train(workdir, accumulate_steps=parts, clip_norm=clip_norm)
        rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
        runs.append((rows, facts["tokens"], [v.numpy() for v in toy.model.variables]))
    (rows, tokens, weights), (other_rows, other_tokens, other_weights) = runs
    assert tokens == other_tokens
    for row, other in zip(rows, other_rows, strict=True):
        assert row == pytest.approx(other, rel=1e-4)  # sums in another order, 20 steps long
        assert ("gradient_norm" in row) == (bool(clip_norm) and "loss" in row)
    for one, other in zip(weights, other_weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)  # as above


def test_parts_that_are_none(tmp_path):
    with pytest.raises(ValueError, match=r"^`accumulate_steps` must be an integer >= 1. Received: .*=0"):
        Toy().train(tmp_path, accumulate_steps=0)
    with pytest.raises(ValueError, match=r"`accumulate_steps` must divide .*=3, parts of 8 rows"):
        Toy().train(tmp_path, accumulate_steps=3)
