"""The head of a question answerer against loops over one row, and what its masks hide."""

import numpy as np
import tensorflow as tf

from convnlp.layers import QuestionSummary, SpanPointers
from convnlp.layers.pair_segments import PairSegments
from convnlp.layers.question_summary import DILATION_RATES, KERNEL_SIZE

RNG = np.random.default_rng(0)
END, WIDTH, LOWEST = 1, 4, -1e4
ROWS = [[7, 8, END, 5, 7, 6, 9, 5, 3, END, 0, 0], [END, 7, 8, 9, END, *[0] * 7], [*range(2, 12), END, END]]


def arrays():
    ids = np.array(ROWS, "int32")
    mask = np.array([np.arange(12) < 12 - row.count(0) for row in ROWS])
    segments = PairSegments(END)(tf.constant(ids), tf.constant(mask)).numpy()
    return RNG.normal(size=[len(ROWS), 12, WIDTH]).astype("float32"), ids, segments


def built(layer, *inputs):
    """The layer with random weights."""
    layer(*map(tf.constant, inputs))
    for weight in layer.weights:
        weight.assign(RNG.normal(size=weight.shape))
    return layer


def summed_up(layer, x, ids, segments):
    """`QuestionSummary` of one row, in float64."""
    attention, score = (each.kernel.numpy().astype("float64") for each in (layer.attention, layer.score))
    question = [t for t in range(len(ids)) if segments[t] == 1]
    logits = [float((np.tanh(x[t] @ attention) @ score)[0]) for t in question]
    shares = np.exp(logits) / np.exp(logits).sum()
    summary = sum(share * x[t] for share, t in zip(shares, question, strict=True))
    asked = {ids[t] for t in question if ids[t] != END}
    kernel, bias = layer.join.kernel.numpy(), layer.join.bias.numpy()
    context = [t for t in range(len(ids)) if segments[t] == 2]
    y = {
        t: np.concatenate([x[t], summary, x[t] * summary, [float(ids[t] in asked)]]) @ kernel + bias
        for t in context
    }
    for conv, rate in zip(layer.convs, DILATION_RATES, strict=True):
        taps = conv.kernel.numpy()
        both = {
            t: sum(
                y.get(t + rate * (j - KERNEL_SIZE // 2), np.zeros(WIDTH)) @ taps[j]
                for j in range(KERNEL_SIZE)
            )
            for t in context
        }
        gates = {t: 1 / (1 + np.exp(-both[t][WIDTH:])) for t in context}
        y = {t: y[t] * (1 - gates[t]) + both[t][:WIDTH] * gates[t] for t in context}
    return {t: x[t] + y[t] for t in context}


def test_the_summary_equals_the_loops():
    x, ids, segments = arrays()
    layer = built(QuestionSummary(WIDTH, END), x, ids, segments)
    found = layer(*map(tf.constant, (x, ids, segments))).numpy()
    for row, own_ids, own_segments, y in zip(x.astype("float64"), ids, segments, found, strict=True):
        for t, expected in summed_up(layer, row, own_ids, own_segments).items():
            np.testing.assert_allclose(y[t], expected, rtol=1e-4, atol=1e-4)  # float32 through four layers


def test_what_is_at_pads_changes_nothing_in_the_context():
    x, ids, segments = arrays()
    layer = built(QuestionSummary(WIDTH, END), x, ids, segments)
    other = np.where(segments[..., np.newaxis] > 0, x, np.nan)
    y, again = (layer(tf.constant(each), ids, segments).numpy()[segments == 2] for each in (x, other))
    np.testing.assert_array_equal(y, again)
    assert np.isfinite(again).all()


def test_the_question_reaches_all_of_the_context():
    x, ids, segments = (tf.constant(each) for each in arrays())
    layer = built(QuestionSummary(WIDTH, END), x, ids, segments)
    with tf.GradientTape() as tape:
        tape.watch(x)
        last = layer(x, ids, segments)[0, 8]  # the context's last token, 6 away from the question
    reached = tf.reduce_any(tape.gradient(last, x)[0] != 0, axis=1).numpy()
    assert reached[:3].all()
    assert not reached[10:].any()


def test_pointers_choose_among_the_context_and_the_end_of_the_question():
    x, ids, segments = arrays()
    layer = built(SpanPointers(END, LOWEST), x, ids, segments)
    kernel, bias = layer.pointers.kernel.numpy(), layer.pointers.bias.numpy()
    x = np.where(segments[..., np.newaxis] > 0, x, np.nan).astype("float32")
    found = layer(*map(tf.constant, (x, ids, segments))).numpy()
    assert found.shape == (3, 2, 12)
    for row in range(3):
        first, last = [t for t in range(12) if ids[row, t] == END]
        for pointer in range(2):
            for t in range(12):
                expected = x[row, t] @ kernel[:, pointer] + bias[pointer] if first <= t < last else LOWEST
                np.testing.assert_allclose(found[row, pointer, t], expected, rtol=1e-5, atol=1e-5)  # float32
