"""The contract of `TokenMixer`, point by point. Each check takes a `Case` and raises AssertionError."""

import json

import keras
import numpy as np
import tensorflow as tf

from convnlp import kernels
from convnlp.layers import TokenMixer
from convnlp.testing.cases import BATCH, DIM, TIME, random_rows
from convnlp.testing.requirements import require

# The same float32 sums in another order or in blocks of another size.
REORDERED = 1e-5
LONG = 300  # Longer than a block of any kernel here, and more texts in a row than eight bits can number.
COSTS = {"parameters", "multiply_adds", "state_elements"}


def config_and_weights_make_an_equal_mixer(case):
    """A mixer that is saved as JSON and made again, with copied weights, gives the same values."""
    mixer, x = case.build(), random_rows()
    config = keras.saving.serialize_keras_object(mixer)
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(config)))
    require(again.get_config() == mixer.get_config(), f"{again.get_config()} != {mixer.get_config()}")
    again(x)
    again.set_weights(mixer.get_weights())
    np.testing.assert_array_equal(again(x), mixer(x))


def methods_keep_their_checks(case):
    """`call`, `init_state` and `step` are `TokenMixer`'s: a mixer implements what they call."""
    for method in ("call", "init_state", "step"):
        kept = getattr(case.facts, method) is getattr(TokenMixer, method)
        require(kept, f"{case.facts.__name__}.{method} skips the checks of TokenMixer.{method}")


def shape_type_and_parameter_count(case):
    """The output is [B,T,D] in the compute dtype, and there are as many parameters as `cost` says."""
    cost = case.build().cost(TIME)
    require(set(cost) == COSTS, f"cost() must give {sorted(COSTS)}; it gives {sorted(cost)}")
    require(
        all(isinstance(value, int) and value >= 0 for value in cost.values()), f"{cost} must be ints >= 0"
    )
    for dtype in ("float32", "mixed_bfloat16"):
        mixer = case.build(dtype)
        y = mixer(random_rows())
        require(y.shape == (BATCH, TIME, DIM), f"{y.shape} must be {(BATCH, TIME, DIM)}")
        require(y.dtype == mixer.compute_dtype, f"{y.dtype} must be {mixer.compute_dtype}")
        counted, stated = mixer.count_params(), mixer.cost(TIME)["parameters"]
        require(counted == stated, f"{counted} parameters, and cost() says {stated}")
        shape = mixer.compute_output_spec(keras.KerasTensor((None, None, DIM))).shape
        require(shape == (None, None, DIM), f"{shape} must be {(None, None, DIM)}")


def sizes_need_not_be_known(case):
    """A graph that knows neither B nor T gives the same outputs, as models are traced."""
    mixer, x = case.build(), random_rows()
    tokens = tf.sequence_mask([TIME - 3, TIME], TIME)
    specs = [tf.TensorSpec([None, None, DIM]), tf.TensorSpec([None, None], tf.bool)]
    with kernels.implementation("plain"):
        traced = tf.function(lambda x, mask: mixer(x, padding_mask=mask), specs, autograph=False)
        np.testing.assert_allclose(
            traced(x, tokens)[tokens], mixer(x, padding_mask=tokens)[tokens], atol=REORDERED
        )


def rows_do_not_see_each_other(case):
    """A row gives the same alone and in a batch; in training, no gradient passes between rows."""
    mixer, x = case.build(), random_rows()
    with kernels.implementation("plain"):
        alone = tf.concat([mixer(x[:1]), mixer(x[1:])], 0)
        np.testing.assert_allclose(mixer(x), alone, atol=REORDERED)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = mixer(x, training=True)[:1]
    require(not np.any(tape.gradient(y, x)[1:]), "in training, outputs of a row depend on another row")


def pads_never_change_valid_outputs(case):
    """The values at pads do not matter, nor, with `pad_length_invariant`, the number of pads."""
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


def pads_are_zeros_to_the_tokens(case):
    """Zeros at the pads and no mask give the tokens the same outputs."""
    mixer, x, tokens = case.build(), random_rows(), np.ones([BATCH, TIME], bool)
    tokens[0, TIME - 3 :] = False
    expected = mixer(x, padding_mask=tf.constant(tokens))[tokens]
    zeros = mixer(x * tokens[..., np.newaxis].astype("float32"))[tokens]
    np.testing.assert_allclose(zeros, expected, atol=REORDERED)


def a_row_of_pads_is_finite(case):
    """Nothing is divided by the number of tokens if there are none."""
    y = case.build()(random_rows(), padding_mask=tf.zeros([BATCH, TIME], tf.bool))
    require(np.isfinite(y).all(), "the outputs of a row without tokens must be finite")


def influence(mixer, time, positions=None):
    """Returns whether the output at each of P positions depends on input m, by gradient: bool [P,T].

    In the plain form of the kernels; others compile slowly, and are compared elsewhere.

    Args:
        mixer: function of a batch of rows, which is called with P copies of one row.
        time: int. Length T of the row.
        positions: list of int. Defaults to all T of them.
    """
    positions = np.arange(time) if positions is None else np.asarray(positions)
    x = tf.repeat(random_rows(batch=1, time=time), len(positions), axis=0)  # [P,T,D]
    # Random signs, so that softmaxes, which sum to one, cannot hide a dependence.
    signs = tf.constant(np.random.default_rng(2).normal(size=[DIM]).astype("float32"))
    with kernels.implementation("plain"):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = tf.reduce_sum(mixer(x) * signs, axis=2)  # [P,T]
            total = tf.reduce_sum(tf.gather(outputs, positions, batch_dims=1))  # one output of each copy
        return np.any(tape.gradient(total, x), axis=2)


def causality_and_receptive_field_by_gradient(case):
    """A causal mixer sees nothing later, and every mixer sees as far as `receptive_field` says."""
    mixer = case.build()
    for time in (3, 20):
        stated = mixer.receptive_field(time)
        widest = _widest_view(case, mixer, time, np.arange(time))
    require(widest == stated, f"no output sees more than {widest} positions; receptive_field: {stated}")


def no_output_of_a_long_row_sees_too_much(case):
    """The same for some outputs of a row that is longer than a block of any kernel."""
    mixer = case.build()
    time = min(LONG, mixer.longest_text or LONG)
    _widest_view(case, mixer, time, np.unique(np.linspace(0, time - 1, 8).astype(int)))


def _widest_view(case, mixer, time, positions):
    """Returns the largest number of positions that outputs see, and requires that none sees too much."""
    depends = influence(mixer, time, positions)
    later = np.arange(time) > positions[:, np.newaxis]
    if case.causal:
        require(not np.any(depends & later), "an output of a causal mixer depends on a later input")
    # An output may depend on nothing, as after a ReLU that passes none of its channels.
    widest = max((np.ptp(np.flatnonzero(row)) + 1 for row in depends if row.any()), default=0)
    stated = mixer.receptive_field(time)
    require(widest <= stated, f"an output sees {widest} of {time} positions; receptive_field: {stated}")
    return widest


def step_equals_call(case):
    """Chunks of 1, 2 and all positions give what one call gives; the state has the size that `cost` says."""
    mixer, x = case.build(), random_rows()
    tokens = np.arange(TIME) < np.array([[TIME - 2], [TIME]])
    expected = mixer(x, padding_mask=tf.constant(tokens)).numpy()
    for chunk in (1, 2, TIME):
        state, outputs = mixer.init_state(BATCH, TIME), []
        shapes = {key: value.shape for key, value in state.items()}
        elements, stated = (
            sum(shape[1:].num_elements() for shape in shapes.values()),
            mixer.cost(TIME)["state_elements"],
        )
        require(elements == stated, f"{elements} state elements, and cost() says {stated}")
        for index in range(0, TIME, chunk):
            y, state = mixer.step(x[:, index : index + chunk], state, tf.constant(index))
            after = {key: value.shape for key, value in state.items()}
            require(after == shapes, f"a step must keep the shapes of its state: {after} != {shapes}")
            outputs.append(y)
        np.testing.assert_allclose(
            np.concatenate(outputs, 1)[tokens],
            expected[tokens],
            atol=REORDERED,
            err_msg=f"steps of {chunk}",
        )


def states_can_be_gathered_as_beams(case):
    """The batch is on axis 0 of each tensor of a state, and steps keep the types, as beam search needs it."""
    x, beams, done = random_rows(), [1, 0, 1], 3
    for dtype in ("float32", "mixed_bfloat16"):
        mixer = case.build(dtype)
        state = mixer.init_state(BATCH, TIME)
        types = {key: value.dtype for key, value in state.items()}
        y, state = mixer.step(x[:, :done], state, 0)
        require(y.dtype == mixer.compute_dtype, f"a step must give {mixer.compute_dtype}, not {y.dtype}")
        after = {key: value.dtype for key, value in state.items()}
        require(after == types, f"a step must keep the types of its state: {after} != {types}")
    mixer = case.build()
    _, state = mixer.step(x[:, :done], mixer.init_state(BATCH, TIME), 0)
    for key, value in state.items():
        good = value.shape.rank > 0 and value.shape[0] == BATCH
        require(good, f"{key} must have the batch on axis 0; its shape is {value.shape}")
    chosen = tf.gather(x, beams)
    y, _ = mixer.step(chosen[:, done:], {key: tf.gather(value, beams) for key, value in state.items()}, done)
    np.testing.assert_allclose(y, mixer(chosen)[:, done:], atol=REORDERED)


def step_keeps_its_shapes_in_a_graph_loop(case):
    """`tf.while_loop` refuses a state whose shape changes."""
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


def packed_equals_separate(case):
    """Texts in one row, told apart by `segment_ids`, give what each gives alone.

    Those alone are in the plain form of the kernels: others would be compiled for each length.
    """
    mixer = case.build()
    texts = [random_rows(batch=1, time=time, seed=time) for time in (4, 1, 6)]
    packed = tf.concat([*texts, tf.fill([1, 2, DIM], 1e3)], 1)
    segment_ids = tf.constant([[1] * 4 + [2] + [3] * 6 + [0] * 2])
    with kernels.implementation("plain"):
        expected = np.concatenate([mixer(text) for text in texts], 1)
    np.testing.assert_allclose(mixer(packed, segment_ids=segment_ids)[:, :11], expected, atol=REORDERED)


def texts_of_one_token_stay_apart(case):
    """As many texts in a row as it has positions give what each gives alone.

    So `segment_ids` are compared in full: ids that are cast to eight bits or to bfloat16 are not.
    """
    mixer = case.build()
    time = min(LONG, mixer.longest_text or LONG)
    x = random_rows(batch=1, time=time)
    with kernels.implementation("plain"):
        packed = mixer(x, segment_ids=tf.range(1, time + 1)[tf.newaxis])[0]
        alone = mixer(tf.transpose(x, [1, 0, 2]))[:, 0]
    np.testing.assert_allclose(packed, alone, atol=REORDERED)


def bfloat16_is_near_float32(case):
    """bfloat16 outputs are within 2^-5 of the largest value.

    bfloat16 keeps eight bits, so one rounding is off by at most 2^-8 of the value. Up to eight of them follow
    each other: inputs, projections, logits, taps, products, sums, output.
    """
    x = random_rows()
    expected = case.build()(x).numpy()
    y = tf.cast(case.build("mixed_bfloat16")(x), tf.float32)
    np.testing.assert_allclose(y, expected, atol=2**-5 * np.abs(expected).max())


def loss_falls_on_a_copy_task(case):
    """Tokens are embedded, mixed and recognised again, which fails if a mixer loses them or their order.

    A mixer that cannot copy by itself is added to its inputs, as in its block, and must not drown them out.
    """
    mixer, residual = case.build(), 0.0 if case.copies else 1.0
    rng = np.random.default_rng(3)
    tokens = tf.constant(rng.integers(0, 6, size=[16, TIME]))
    embedding = tf.Variable(rng.normal(size=[6, DIM]).astype("float32"))
    head = tf.Variable(rng.normal(size=[DIM, 6]).astype("float32") / DIM**0.5)
    weights = [embedding, head, *(weight.value for weight in mixer.trainable_weights)]

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            x = tf.one_hot(tokens, 6) @ embedding  # [16,T,D]
            logits = (residual * x + mixer(x, training=True)) @ head
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tokens, logits))
        gradients = tape.gradient(loss, weights)
        for weight, gradient in zip(weights, gradients, strict=True):
            require(gradient is not None, f"{weight.name} must have an influence on the outputs")
            weight.assign_sub(0.3 * gradient)
        return loss

    first = float(step())
    for _ in range(60):
        last = float(step())
    require(last < first / 2, f"the loss fell from {first:.3f} to {last:.3f} only")
