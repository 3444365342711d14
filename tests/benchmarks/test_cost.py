import collections

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import cost, counting
from convnlp import kernels
from convnlp.layers import MIXERS, build_mixer
from tests.mixer_table import sampled

LENGTH = 128
TINY = cost.Settings(lengths=(LENGTH,), hidden_dim=64, num_heads=4, kernel_size=3, size="tiny")


@pytest.mark.parametrize(
    ("function", "shapes", "expected"),
    [
        (tf.matmul, [[2, 3], [3, 5]], {"MatMul": 2 * 3 * 5}),
        (lambda a, b: tf.matmul(a, b, transpose_a=True), [[3, 2], [3, 5]], {"MatMul": 2 * 3 * 5}),
        (tf.matmul, [[4, 2, 3], [4, 3, 5]], {"BatchMatMulV2": 4 * 2 * 3 * 5}),
        (lambda a, b: tf.einsum("btd,bsd->bts", a, b), [[2, 3, 5], [2, 7, 5]], {"Einsum": 2 * 3 * 7 * 5}),
        (
            lambda a: tf.nn.conv2d(a, tf.ones([1, 3, 2, 4]), 1, "SAME"),
            [[1, 1, 9, 2]],
            {"Conv2D": 9 * 3 * 2 * 4},
        ),
        (
            lambda a: tf.nn.depthwise_conv2d(a, tf.ones([1, 3, 2, 1]), [1] * 4, "SAME"),
            [[1, 1, 9, 2]],
            {"DepthwiseConv2dNative": 9 * 3 * 2},
        ),
        (lambda a, b: tf.add_n([a * b, a * b]), [[7], [7]], {"Mul": 14}),
        (lambda a, b: tf.reduce_sum(a * b), [[7], [7]], {"Mul": 7}),
        (lambda a, b: tf.nn.sigmoid(a) * b, [[7], [7]], {}),  # a gate is no multiply-add
        (lambda a: tf.einsum("hn,qn->hq", a, tf.one_hot([0, 2], 3)), [[4, 3]], {}),  # a look-up
        (lambda a: tf.signal.fft(tf.cast(a, tf.complex64)), [[8]], {"FFT": 4 * 8 * 3}),
    ],
)
def test_multiply_adds_of_single_operations(function, shapes, expected):
    counted = counting.multiply_adds(function, *map(tf.TensorSpec, shapes))
    assert counted == collections.Counter(expected)


def test_what_cannot_be_counted_is_an_error():
    with pytest.raises(ValueError, match="must have a known shape"):
        counting.multiply_adds(lambda a: tf.matmul(a, tf.ones([3, 2])), tf.TensorSpec([None, 3]))
    inner = tf.function(lambda a: tf.matmul(a, a))
    with pytest.raises(ValueError, match=r"cannot look into .* a \w*PartitionedCall"):
        counting.multiply_adds(inner, tf.TensorSpec([3, 3]))


@pytest.mark.parametrize(("shifts", "expected"), [([0], 1), ([-1, 2], 4), ([-5, 0], 6)])
def test_receptive_field(shifts, expected):
    x = tf.constant(np.random.default_rng(0).normal(size=[1, 20, 2]).astype("float32"))
    assert counting.receptive_field(lambda x: sum(tf.roll(x, s, 1) for s in shifts), x, 10) == expected


@pytest.mark.parametrize("mixer", sampled(MIXERS))
def test_formulae_agree_with_counts(mixer):
    rows = {row.name.removeprefix(f"{mixer} "): row for row in cost.mixer_rows(mixer, LENGTH, TINY)}
    assert set(rows) >= {"parameters", "multiply-adds", "receptive field", "bytes"}
    assert rows["parameters"].ratio == 1
    # Formulae leave out the scales and shifts of norms: at this width some per cent.
    assert 0.9 < rows["multiply-adds"].ratio <= 1
    assert rows["receptive field"].ratio == 1
    assert ("with its block" in rows) == MIXERS[mixer].gated
    if "state" in rows:
        assert rows["state"].ratio == 1


@pytest.mark.parametrize("rate", [1, 2])
def test_local_attention_counts_the_rest_of_its_last_block(rate):
    mixer = build_mixer("local_attention", hidden_dim=8, num_heads=2, window_size=40, dilation_rate=rate)
    x = tf.TensorSpec([1, 100, 8])  # 2.5 blocks
    with kernels.implementation("plain"):
        counted = counting.multiply_adds(mixer, x)
    assert mixer.cost(100)["multiply_adds"] == sum(counted.values())


def test_a_whole_model():
    parameters, operations, predicted = cost.model_rows("lightweight_conv", TINY)
    assert parameters.ratio == 1
    assert 0.97 < operations.ratio <= 1  # as above, at a width of 128 with large logits
    assert predicted.peer is None  # not the paper's size


def test_prediction_for_the_papers_run():
    row = cost.prediction("self_attention", {"size": "base"}, 71.0e9)
    # By hand: 6 * 71e9 * 128 * 524288 = 2.859e19 FLOPs; 16 chips * 123e12 * 0.325 = 6.396e14 a second.
    assert row.ours == pytest.approx(2.859e19 / 6.396e14 / 3600, rel=1e-3)
    assert row.peer == 12
    assert row.detail["assumptions"]
