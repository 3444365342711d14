"""Learned pooling against its equations, as NumPy loops over the tokens, whatever stands at pads."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp import kernels
from convnlp.layers.learned_pooling import AttentionPooling, ClassAttention
from tests.oracles.arithmetic import layer_norm, softmax, weight
from tests.tflite import converted, run

TOKENS = np.array([[True, True, False, False], [True] * 4, [True, False, False, False]])
X = np.random.default_rng(0).normal(size=[3, 4, 8]).astype("float32")


def attention_pooling(layer, tokens):
    """sum_t softmax_t(a . tanh(W h_t)) h_t."""
    scores = [np.tanh(h @ weight(layer.hidden.kernel)) @ weight(layer.score.kernel)[:, 0] for h in tokens]
    return softmax(np.array(scores)) @ tokens


def class_attention(layer, tokens):
    """c attends to itself and the tokens, then goes through a feed-forward layer, N times; its norm."""

    def normed(norm, values):
        return layer_norm(values) * weight(norm.gamma) + weight(norm.beta)

    c = weight(layer.class_vector)
    for each in layer.layers:
        seen = normed(each.attention_norm, np.concatenate([[c], tokens]))
        query = seen[0] @ weight(each.query.kernel)
        keys, values = seen @ weight(each.key.kernel), seen @ weight(each.value.kernel)
        heads = np.split(np.arange(len(c)), layer.num_heads)
        mixed = [softmax(keys[:, part] @ query[part]) @ values[:, part] for part in heads]
        given = np.concatenate(mixed) @ weight(each.output_projection.kernel)
        c = c + weight(each.attention_scale) * given
        inner = np.maximum(normed(each.feed_forward_norm, c) @ weight(each.feed_forward.inner.kernel), 0)
        c = c + weight(each.feed_forward_scale) * (inner @ weight(each.feed_forward.outer.kernel))
    return normed(layer.norm, c)


CASES = {
    "attention": (AttentionPooling, attention_pooling),
    "class_attention": (lambda: ClassAttention(num_heads=2, intermediate_dim=12), class_attention),
}
both = pytest.mark.parametrize("name", CASES)


def build(name):
    keras.utils.set_random_seed(0)
    layer = CASES[name][0]()
    layer(X, tf.constant(TOKENS))
    rng = np.random.default_rng(1)
    layer.set_weights([value + 0.3 * rng.normal(size=value.shape) for value in layer.get_weights()])
    return layer


def expected(name, layer):
    rows = zip(X.astype("float64"), TOKENS, strict=True)
    return np.stack([CASES[name][1](layer, row[tokens]) for row, tokens in rows])


@both
@pytest.mark.parametrize(
    ("form", "pad"),
    [(form, pad) for form in ("plain", "fast", "inference") for pad in (1e6, np.nan)] + [("edge", 1e6)],
)
def test_values_and_gradients(name, form, pad):
    layer = build(name)
    x = tf.constant(np.where(TOKENS[..., np.newaxis], X, pad).astype("float32"))
    with kernels.implementation(form), tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x, tf.constant(TOKENS))
        loss = tf.reduce_sum(y**2)
    # Float32 sums of a dozen terms of size one, against float64.
    np.testing.assert_allclose(y, expected(name, layer), atol=1e-5)
    gradient = tape.gradient(loss, x).numpy()
    assert np.isfinite(gradient).all()
    assert not gradient[~TOKENS].any()
    assert np.abs(gradient[TOKENS]).max(-1).all()


@both
def test_the_number_of_parameters(name):
    dim, inner = 8, 12
    stated = {
        "attention": dim**2 + dim,
        "class_attention": 2 * (4 * dim**2 + 2 * dim * inner + 6 * dim) + 3 * dim,
    }
    assert build(name).count_params() == stated[name]


@both
def test_saved_and_made_again(name):
    layer = build(name)
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    again = keras.saving.deserialize_keras_object(config)
    again(X, tf.constant(TOKENS))
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(again(X, tf.constant(TOKENS)), layer(X, tf.constant(TOKENS)))


@both
def test_no_tokens_and_no_rows(name):
    layer = build(name)
    y = layer(X[:1], tf.zeros([1, 4], tf.bool))
    alone = np.zeros([8]) if name == "attention" else class_attention(layer, np.zeros([0, 8]))
    np.testing.assert_allclose(y[0], alone, atol=1e-5)
    assert layer(tf.zeros([0, 4, 8]), tf.zeros([0, 4], tf.bool)).shape == (0, 8)


@both
def test_as_tflite(name):
    layer = build(name)
    interpreter = converted(
        lambda x, mask: layer(x, mask),
        tf.TensorSpec([None, None, 8], name="a"),
        tf.TensorSpec([None, None], tf.bool, name="b"),
    )
    x = np.where(TOKENS[..., np.newaxis], X, 1e6).astype("float32")
    np.testing.assert_allclose(run(interpreter, x, TOKENS), expected(name, layer), atol=1e-5)


def test_bad_sizes_are_named():
    with pytest.raises(ValueError, match=r"`num_layers` must be an int >= 1. Received: num_layers=0"):
        ClassAttention(num_heads=2, intermediate_dim=12, num_layers=0)
    with pytest.raises(ValueError, match=r"`num_heads` must divide hidden_dim. Received: num_heads=3"):
        ClassAttention(num_heads=3, intermediate_dim=12)(X, tf.constant(TOKENS))
