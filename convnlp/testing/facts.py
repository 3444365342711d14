"""The facts of a mixer's class: what it claims to support works, and what it does not support is refused."""

import inspect

import numpy as np
import tensorflow as tf

from convnlp import kernels
from convnlp.testing.cases import DIM, TIME, random_rows
from convnlp.testing.requirements import refused, require

# Float32 sums with weights of another size.
TOLERANCE = 1e-4


def causal_needs_supports_causal(case):
    """`causal=True`."""
    if case.facts.supports_causal:
        require(case.make(causal=True).causal, "causal=True must be kept as the attribute `causal`")
    else:
        with refused("`causal` must be False", "Received: causal=True"):
            case.make(causal=True)


def segment_ids_need_supports_packing(case):
    """`segment_ids`."""
    mixer, x, ids = case.make(), tf.ones([1, 2, DIM]), tf.constant([[1, 2]])
    if case.facts.supports_packing:
        require(mixer(x, segment_ids=ids).shape == x.shape, "packed rows must keep their shape")
    else:
        with refused("`segment_ids` must be None"):
            mixer(x, segment_ids=ids)


def steps_need_supports_step_and_causal(case):
    """`init_state`."""
    if not case.facts.supports_step:
        with refused("supports_step", f"Received: {case.facts.__name__}"):
            case.make(causal=case.facts.supports_causal).init_state(1, 4)
        return
    require(case.facts.supports_causal, "supports_step needs supports_causal")
    require(isinstance(case.make(causal=True).init_state(1, 4), dict), "`init_state` must return a dict")
    with refused("`causal` must be True", "Received: causal=False"):
        case.make(causal=False).init_state(1, 4)


def needs_max_length_is_an_argument(case):
    """A mixer with `needs_max_length` takes `max_sequence_length`, and refuses longer texts."""
    accepted = "max_sequence_length" in inspect.signature(case.facts).parameters
    require(
        accepted == case.facts.needs_max_length,
        f"needs_max_length is {case.facts.needs_max_length}, and the constructor "
        f"{'takes' if accepted else 'does not take'} max_sequence_length",
    )
    if not accepted:
        return
    mixer = case.make(max_sequence_length=4, causal=case.facts.supports_step)
    require(mixer(tf.ones([1, 4, DIM])).shape == (1, 4, DIM), "a text of max_sequence_length must fit")
    rule = "`x` must have at most max_sequence_length = 4 positions"
    with refused(rule, "Received: 5"):
        mixer(tf.ones([1, 5, DIM]))
    in_a_graph = tf.function(lambda x: mixer(x), input_signature=[tf.TensorSpec([None, None, DIM])])
    require(in_a_graph(tf.ones([1, 4, DIM])).shape == (1, 4, DIM), "a graph must take what fits")
    with refused(rule, "Received:", "[5]", kind=tf.errors.InvalidArgumentError):
        in_a_graph(tf.ones([1, 5, DIM]))
    if case.facts.supports_step:
        with refused("`max_length` must have at most max_sequence_length = 4 positions", "Received: 5"):
            mixer.init_state(1, 5)


def the_order_of_tokens_matters_if_it_is_known(case):
    """Permuted tokens give permuted outputs if and only if `knows_order` is False."""
    mixer, x = case.build(), random_rows()
    order = np.random.default_rng(4).permutation(TIME)
    y, permuted = mixer(x).numpy(), mixer(tf.gather(x, order, axis=1)).numpy()
    is_blind = np.abs(permuted - y[:, order]).max() <= 1e-5 * max(1.0, np.abs(y).max())
    require(
        is_blind != mixer.knows_order,
        f"knows_order is {mixer.knows_order}, and permuting the tokens "
        f"{'only permutes' if is_blind else 'changes'} the outputs",
    )


def images_equal_rows(case):
    """With `takes_images`, a row as an image of height 1 gives the outputs of the row.

    Traced, as in an export: TensorFlow's eager operations cannot do it, see `Encoder`.
    """
    mixer, x = case.build(), random_rows()
    with kernels.implementation("edge"):
        if mixer.takes_images:
            traced = tf.function(lambda x: mixer(x), autograph=False)
            np.testing.assert_allclose(traced(x[:, tf.newaxis])[:, 0], traced(x), atol=TOLERANCE)


def projections_are_as_declared(case):
    """On export, constants move into what `entry_projections` and `exit_projections` declare.

    If nothing else reads the inputs, a factor and an offset of theirs can move into the kernels. If nothing
    else makes the outputs, these have mean 0 with kernels of mean 0.
    """
    x, rng = random_rows(), np.random.default_rng(6)
    factor, offset = rng.uniform(0.5, 2.0, [DIM]).astype("float32"), rng.normal(size=[DIM]).astype("float32")
    mixer = case.build()
    expected = mixer(factor * x + offset)
    declared = mixer.entry_projections
    for projection in declared:
        kernel = projection.kernel.numpy()
        projection.kernel.assign(factor[:, np.newaxis] * kernel)
        projection.folded_offset = offset @ kernel
    if declared:
        message = "something else than `entry_projections` reads the inputs"
        np.testing.assert_allclose(mixer(x), expected, atol=TOLERANCE, err_msg=message)
    mixer = case.build()
    y = mixer(x)
    declared = mixer.exit_projections
    for projection in declared:
        kernel = projection.kernel.numpy()
        projection.kernel.assign(kernel - kernel.mean(axis=1, keepdims=True))
    if declared:
        message = "the outputs are not the sum of those of `exit_projections`"
        expected = y - np.mean(y, axis=2, keepdims=True)
        np.testing.assert_allclose(mixer(x), expected, atol=TOLERANCE, err_msg=message)
