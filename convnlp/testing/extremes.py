"""Attacks: what must not be seen stays unseen, however large the inputs, and whatever the pads hold.

A mask that is added to logits, or multiplied with what it hides, fails for inputs that are large enough; a
mask that selects does not.
"""

import functools
import itertools

import numpy as np
import tensorflow as tf

from convnlp import kernels
from convnlp.testing.cases import BATCH, DIM, TIME, random_rows
from convnlp.testing.requirements import require

SCALES = (1e2, 1e4)
PADS = (1e6, np.inf, np.nan)
# Relative to the largest output: the same sums, with numbers of another size where they count as zero.
SAME = {"float32": 1e-5, "mixed_bfloat16": 2**-7}


def _plainly(check):
    """Runs a check in the plain form of the kernels; others compile slowly, and are compared elsewhere."""

    @functools.wraps(check)
    def run(case):
        with kernels.implementation("plain"):
            check(case)

    return run


def _require_same(y, expected, dtype, what):
    """Requires equality up to the rounding of a sum of the largest values."""
    y, expected = (np.asarray(tf.cast(value, tf.float32)) for value in (y, expected))
    require(np.isfinite(expected).all(), f"{what}: {dtype} outputs must be finite")
    largest = np.abs(expected).max(initial=1e-3)
    np.testing.assert_allclose(y, expected, rtol=0, atol=SAME[dtype] * largest, err_msg=f"{what}, {dtype}")


def _values_and_gradients(mixer, x, tokens, masks):
    """Returns the outputs at tokens, and the gradients of their squares by x and by the weights."""
    x = tf.constant(x)
    weights = [weight.value for weight in mixer.trainable_weights]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.cast(mixer(x, **masks), tf.float32)
        loss = tf.reduce_sum(tf.where(tokens[..., np.newaxis], tf.square(y), 0.0))
    return [y[tokens], *map(tf.convert_to_tensor, tape.gradient(loss, [x, *weights]))]


def _copies(array, number):
    return np.tile(array, [number, *[1] * (np.ndim(array) - 1)])


def _padded(x, tokens, pads):
    """Returns a copy of the rows for each pad, with that value where there is no token."""
    return np.concatenate([np.where(tokens[..., np.newaxis], x, pad).astype("float32") for pad in pads])


def nothing_at_pads_matters(case):
    """Values of 1e6, infinities and NaNs at pads change no output at tokens and no gradient.

    The form for TFLite, which has no gradients, multiplies pads by zero; there they must be finite.
    """
    tokens = np.arange(TIME) < np.array([[TIME - 3], [TIME]])
    masks = [{"padding_mask": tokens}]
    if case.facts.supports_packing:
        texts = np.tile(np.array([1, 1, 2, 2, 2, 3, 3], "int32"), [BATCH, 1])
        masks += [{"segment_ids": texts * tokens}, {**masks[0], "segment_ids": texts}]
    if case.facts.supports_prefix and not case.causal:
        masks.append({**masks[0], "prefix_mask": tokens & (np.arange(TIME) < 3)})
    if case.facts.supports_right_to_left and not case.causal:
        masks.append({**masks[0], "right_to_left": True})
    x = random_rows().numpy()
    uses = [("plain", "float32", mask, PADS[::2]) for mask in masks]  # infinity times zero is a NaN
    if case.typical:
        uses += [("fast", "float32", masks[0], PADS[2:]), ("plain", "mixed_bfloat16", masks[0], PADS)]
    for form, dtype, mask, pads in uses:
        mixer, number = case.build(dtype), len(pads)
        with kernels.implementation(form):
            expected, found = (
                _values_and_gradients(
                    mixer, _padded(x, tokens, values), _copies(tokens, number), _tensors(mask, number)
                )
                for values in ([0.0] * number, pads)
            )
        names = ["an output", "the gradient by x"] + ["the gradient by a weight"] * (len(found) - 2)
        pads = " or ".join(map(str, pads))
        for name, value, reference in zip(names, found, expected, strict=True):
            _require_same(value, reference, dtype, f"{pads} at pads, with {list(mask)}: {name}")
        by_pads = np.asarray(found[1])[~_copies(tokens, number)]
        require(not np.any(by_pads), f"{pads} at pads: the gradient by them must be zero")
    mixer = case.build()
    with kernels.implementation("plain"):
        expected = mixer(_padded(x, tokens, [0.0]), **_tensors(masks[0])).numpy()[tokens]
    for form, pads in {"inference": PADS, "edge": PADS[:1]}.items():
        number = len(pads)
        with kernels.implementation(form):
            y = mixer(_padded(x, tokens, pads), **_tensors(masks[0], number)).numpy()
        pads = " or ".join(map(str, pads))
        _require_same(
            y[_copies(tokens, number)], _copies(expected, number), "float32", f"{pads} at pads, {form} form"
        )


def _tensors(masks, number=1):
    """Returns arguments of a mixer for so many copies of the rows."""
    return {
        name: tf.constant(_copies(mask, number)) if isinstance(mask, np.ndarray) else mask
        for name, mask in masks.items()
    }


def _require_unseen(case, kept, what, **arguments):
    """Requires that outputs do not depend on the inputs at other positions, however large all are.

    Args:
        case: `convnlp.testing.Case`.
        kept: bool [B,T]. Where the outputs are looked at, and the inputs stay.
        what: str. Names the other inputs.
        **arguments: of the mixer.
    """
    for dtype in ("float32", "mixed_bfloat16") if case.typical else ("float32",):
        mixer = case.build(dtype)
        for scale in SCALES:
            x = scale * random_rows()
            other = tf.where(kept[..., np.newaxis], x, scale * random_rows(seed=5))
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = mixer(x, **arguments)[kept]
                loss = tf.reduce_sum(tf.square(tf.cast(y, tf.float32)))
            _require_same(mixer(other, **arguments)[kept], y, dtype, f"{what}, {scale:g} times as large")
            others = tape.gradient(loss, x)[~kept]
            require(not np.any(others), f"inputs {scale:g} times as large: outputs depend on {what}")


def _from_to(start, stop):
    """Returns bool [B,T], true in [start, stop)."""
    positions = np.arange(TIME)
    return np.tile((start <= positions) & (positions < stop), [BATCH, 1])


@_plainly
def nothing_later_is_seen_however_large(case):
    """Checks outputs of a causal mixer for later inputs."""
    _require_unseen(case, _from_to(0, TIME // 2), "later inputs")


@_plainly
def texts_stay_apart_however_large(case):
    """Checks outputs of packed texts for the other texts of their rows."""
    segments = np.array([[1, 1, 1, 2, 2, 2, 0], [1, 2, 2, 2, 3, 3, 3]], "int32")
    _require_unseen(case, segments == 2, "other texts", segment_ids=tf.constant(segments))


@_plainly
def nothing_behind_a_prefix_is_seen_however_large(case):
    """Checks outputs in the prefix and right after it for what follows."""
    _require_unseen(case, _from_to(0, 5), "what follows", prefix_mask=tf.constant(_from_to(0, 4)))


@_plainly
def nothing_before_is_seen_from_right_to_left_however_large(case):
    """Checks outputs at the end of a row for earlier inputs."""
    _require_unseen(case, _from_to(4, TIME), "earlier inputs", right_to_left=True)


@_plainly
def rows_of_pads_stay_finite(case):
    """Checks outputs and gradients of rows without tokens, beside a row with tokens."""
    tokens, mixer = np.array([[False] * TIME, [True] * TIME]), case.build()
    for pad in PADS[::2]:
        x = np.where(tokens[..., np.newaxis], random_rows(), pad).astype("float32")
        found = _values_and_gradients(mixer, x, tokens, {"padding_mask": tf.constant(tokens)})
        for value in found:
            require(np.isfinite(value).all(), f"{pad} in a row of pads: outputs and gradients of the other")
        if np.isfinite(pad):
            y = mixer(x, padding_mask=tf.constant(tokens))
            require(np.isfinite(y).all(), f"{pad} in a row of pads: its outputs must be finite")


def an_empty_batch_passes(case):
    """A batch without rows, packed or not, gives outputs and gradients without rows."""
    x = tf.zeros([0, TIME, DIM])
    masks = [{"padding_mask": tf.zeros([0, TIME], tf.bool)}]
    if case.facts.supports_packing:
        masks.append({"segment_ids": tf.zeros([0, TIME], tf.int32)})
    forms = ("fast", "plain") if case.typical else ("plain",)
    for form, mask in itertools.product(forms, masks):
        mixer = case.build()
        weights = [weight.value for weight in mixer.trainable_weights]
        with kernels.implementation(form), tf.GradientTape() as tape:
            tape.watch(x)
            y = mixer(x, **mask, training=True)
        gradients = tape.gradient(y, [x, *weights])
        require(y.shape == x.shape, f"{y.shape} must be {x.shape}")
        for gradient in map(tf.convert_to_tensor, gradients):
            require(np.isfinite(gradient).all() and not np.any(gradient), "gradients of no rows must be zero")
    if case.causal and case.facts.supports_step:
        y, _ = mixer.step(x[:, :1], mixer.init_state(0, TIME), 0)
        require(y.shape == (0, 1, DIM), f"a step of no rows: {y.shape} must be {(0, 1, DIM)}")
