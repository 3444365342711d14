"""The contract of design.md, point by point, over the whole table."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.mixer_table import BATCH, DIM, TIME, all_cases, causal_cases, random_rows, typical_cases

# The same float32 sums in another order or in blocks of another size.
REORDERED = 1e-5


@all_cases
def test_config_and_weights_make_an_equal_mixer(case):
    mixer, x = case.build(), random_rows()
    config = keras.saving.serialize_keras_object(mixer)
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(config)))
    assert again.get_config() == mixer.get_config()
    again.set_weights(mixer.get_weights())
    np.testing.assert_array_equal(again(x), mixer(x))


@all_cases
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_shape_type_and_parameter_count(case, dtype):
    mixer = case.build(dtype)
    y = mixer(random_rows())
    assert y.shape == (BATCH, TIME, DIM)
    assert y.dtype == mixer.compute_dtype
    assert mixer.count_params() == mixer.cost(TIME)["parameters"]
    assert mixer.compute_output_spec(keras.KerasTensor((None, None, DIM))).shape == (None, None, DIM)


@all_cases
def test_pads_never_change_valid_outputs(case):
    mixer, lengths = case.build(), np.array([TIME - 3, TIME])
    x = random_rows().numpy()
    tokens = np.arange(TIME) < lengths[:, np.newaxis]
    expected = mixer(x, padding_mask=tf.constant(tokens)).numpy()

    garbage = np.where(tokens[..., np.newaxis], x, 1e3).astype("float32")
    np.testing.assert_allclose(
        mixer(garbage, padding_mask=tf.constant(tokens))[tokens], expected[tokens], atol=REORDERED
    )

    if case.facts.pad_length_invariant:
        longer = np.pad(garbage, [[0, 0], [0, 5], [0, 0]], constant_values=-1e3)
        more = np.pad(tokens, [[0, 0], [0, 5]])
        np.testing.assert_allclose(
            mixer(longer, padding_mask=tf.constant(more))[more], expected[tokens], atol=REORDERED
        )


@typical_cases
def test_a_row_of_pads_is_finite(case):
    y = case.build()(random_rows(), padding_mask=tf.zeros([BATCH, TIME], tf.bool))
    assert np.isfinite(y).all()


def influence(mixer, time):
    """Bool [T,T]: whether output i depends on input m, by gradient."""
    x = random_rows(batch=1, time=time)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        # Random signs, so that softmaxes which sum to one cannot hide a dependence.
        signs = tf.constant(np.random.default_rng(2).normal(size=[DIM]).astype("float32"))
        outputs = [tf.reduce_sum(y * signs) for y in tf.unstack(mixer(x)[0])]
    return np.stack([np.abs(tape.gradient(y, x)[0].numpy()).max(-1) > 0 for y in outputs])


@all_cases
def test_causality_and_receptive_field_by_gradient(case):
    mixer = case.build()
    for time in (3, 20):
        depends = influence(mixer, time)
        if case.causal:
            assert not np.triu(depends, 1).any()
        spans = [np.ptp(np.flatnonzero(row)) + 1 for row in depends]
        assert max(spans) <= mixer.receptive_field(time)
    assert max(spans) == mixer.receptive_field(20)


@causal_cases
@pytest.mark.parametrize("chunk", [1, 2, TIME])
def test_step_equals_call(case, chunk):
    if not case.facts.supports_step:
        pytest.skip("no steps: test_facts.py shows that it says so")
    mixer, x = case.build(), random_rows()
    tokens = np.arange(TIME) < np.array([[TIME - 2], [TIME]])
    expected = mixer(x, padding_mask=tf.constant(tokens)).numpy()
    state = mixer.init_state(BATCH, TIME)
    assert (
        sum(value[0].shape.num_elements() for value in state.values()) == mixer.cost(TIME)["state_elements"]
    )
    outputs = []
    for index in range(0, TIME, chunk):
        y, next_state = mixer.step(x[:, index : index + chunk], state, tf.constant(index))
        assert {key: value.shape for key, value in next_state.items()} == {
            key: v.shape for key, v in state.items()
        }
        outputs.append(y)
        state = next_state
    np.testing.assert_allclose(np.concatenate(outputs, 1)[tokens], expected[tokens], atol=REORDERED)


@causal_cases
def test_step_keeps_its_shapes_in_a_graph_loop(case):
    if not case.facts.supports_step:
        pytest.skip("no steps: test_facts.py shows that it says so")
    mixer, x = case.build(), random_rows()
    state = mixer.init_state(BATCH, TIME)

    @tf.function(autograph=False)
    def decode(x):
        def body(index, outputs, state):
            y, state = mixer.step(x[:, index : index + 1], state, index)
            return index + 1, outputs.write(index, y[:, 0]), state

        outputs = tf.TensorArray(tf.float32, TIME, element_shape=[BATCH, DIM])
        _, outputs, _ = tf.while_loop(lambda index, *_: index < TIME, body, (tf.constant(0), outputs, state))
        return tf.transpose(outputs.stack(), [1, 0, 2])  # [B,T,D]

    np.testing.assert_allclose(decode(x), mixer(x), atol=REORDERED)


@all_cases
def test_packed_equals_separate(case):
    if not case.facts.supports_packing:
        pytest.skip("no packing: test_facts.py shows that it says so")
    mixer = case.build()
    texts = [random_rows(batch=1, time=time, seed=time) for time in (4, 1, 6)]
    packed = tf.concat([*texts, tf.fill([1, 2, DIM], 1e3)], 1)
    segment_ids = tf.constant([[1] * 4 + [2] + [3] * 6 + [0] * 2])
    expected = np.concatenate([mixer(text) for text in texts], 1)
    np.testing.assert_allclose(mixer(packed, segment_ids=segment_ids)[:, :11], expected, atol=REORDERED)


@all_cases
def test_bfloat16_is_near_float32(case):
    """Within 2^-5 of the largest value.

    bfloat16 keeps eight bits, so a rounding is off by at most 2^-8 of its value. Up to eight of them lie
    one after the other: inputs, projections, logits, taps, products, sums, output.
    """
    x = random_rows()
    expected = case.build()(x).numpy()
    y = tf.cast(case.build("mixed_bfloat16")(x), tf.float32)
    np.testing.assert_allclose(y, expected, atol=2**-5 * np.abs(expected).max())


@typical_cases
def test_loss_falls_on_a_copy_task(case):
    """Tokens are embedded, mixed and told apart again; a mixer that lost them or their order could not."""
    mixer = case.build()
    rng = np.random.default_rng(3)
    tokens = tf.constant(rng.integers(0, 6, size=[16, TIME]))
    embedding = tf.Variable(rng.normal(size=[6, DIM]).astype("float32"))
    head = tf.Variable(rng.normal(size=[DIM, 6]).astype("float32") / DIM**0.5)
    weights = [embedding, head, *(weight.value for weight in mixer.trainable_weights)]

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            logits = mixer(tf.one_hot(tokens, 6) @ embedding, training=True) @ head
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tokens, logits))
        gradients = tape.gradient(loss, weights)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.assign_sub(0.3 * gradient)
        return loss

    first = float(step())
    for _ in range(60):
        last = float(step())
    assert last < first / 2
