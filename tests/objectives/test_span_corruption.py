"""Span corruption against NumPy written from T5's rule, by structure and by distribution."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp.objectives import span_corruption

END = 1
SENTINELS = list(range(1099, 999, -1))


def restored(inputs, targets):
    """The raw row and the spans taken from it, by reading input and target as a person would."""
    assert inputs[-1] == targets[-1] == END
    spans, current = {}, None
    for token in targets[:-1]:
        if token >= 1000:
            current = spans.setdefault(token, [])
            assert current == []  # each sentinel once
        else:
            current.append(token)
    raw, is_noise = [], []
    for token in inputs[:-1]:
        piece = spans.pop(token) if token >= 1000 else [token]
        raw += piece
        is_noise += [token >= 1000] * len(piece)
    assert not spans
    return raw, is_noise


@pytest.mark.parametrize(
    ("input_length", "expected"), [(512, (568, 114)), (128, (141, 29)), (256, (284, 58)), (1024, (1137, 229))]
)
def test_lengths_of_t5(input_length, expected):
    assert span_corruption.lengths(input_length) == expected


def test_there_may_be_as_many_spans_as_sentinels():
    inputs, targets = span_corruption.corrupt(tf.fill([1, 20], 5), (0, 1), [99, 98], noise_density=0.3)
    assert [token for token in inputs[0].numpy() if token > 5] == [99, 98]
    assert [token for token in targets[0].numpy() if token > 5] == [99, 98]


@pytest.mark.parametrize(
    ("input_length", "density", "mean"),
    [(3, 0.15, 3.0), (16, 0.15, 3.0), (16, 0.5, 2.0), (64, 0.3, 10.0), (40, 0.6, 5.0)],
)
def test_every_row_gives_the_raw_text_back(input_length, density, mean):
    raw_length, target_length = span_corruption.lengths(input_length, density, mean)
    tokens = np.random.default_rng(0).integers(3, 1000, [50, raw_length], "int32")
    inputs, targets = span_corruption.corrupt(
        tf.constant(tokens), (1, 2), SENTINELS, noise_density=density, mean_span_length=mean
    )
    assert inputs.shape == (50, input_length)
    assert targets.shape == (50, target_length)
    num_noise, num_spans = span_corruption.counts(raw_length, density, mean)
    assert num_noise == max(round(raw_length * density), 1)
    assert num_spans == max(round(num_noise / mean), 1)
    for row in range(50):
        raw, is_noise = restored(inputs[row].numpy().tolist(), targets[row].numpy().tolist())
        assert raw == tokens[row].tolist()
        assert sum(is_noise) == num_noise
        assert not is_noise[0]
        assert is_noise[-1]  # parts and spans alternate from a part on, so the last one is a span
        starts = np.diff([0, *is_noise]) == 1
        assert starts.sum() == num_spans
        assert [token for token in inputs[row].numpy() if token >= 1000] == SENTINELS[:num_spans]
        assert [token for token in targets[row].numpy() if token >= 1000] == SENTINELS[:num_spans]


def test_every_division_is_equally_likely():
    # 8 tokens with 4 of noise in 2 spans: 3 divisions of the noise times 3 of the rest.
    tokens = tf.tile(tf.range(10, 18)[tf.newaxis], [9000, 1])
    inputs, _ = span_corruption.corrupt(tokens, (3, 4), SENTINELS, noise_density=0.5, mean_span_length=2.0)
    rows, counts = np.unique(inputs.numpy(), axis=0, return_counts=True)
    assert len(rows) == 9
    # Each count is binomial, mean 1000, standard deviation 30; five of them are not passed by chance.
    assert np.abs(counts - 1000).max() < 150


def test_noise_density_by_position():
    raw_length, _ = span_corruption.lengths(128)
    tokens = tf.tile(tf.range(raw_length)[tf.newaxis] + 2, [4000, 1])
    inputs, _ = span_corruption.corrupt(tokens, (5, 6), SENTINELS)
    kept = np.zeros(raw_length + 2)
    np.add.at(kept, inputs.numpy()[inputs.numpy() < 1000], 1)
    noise = 1 - kept[2:] / 4000
    np.testing.assert_allclose(noise.mean(), 21 / raw_length, rtol=1e-9)  # exact by construction
    # Away from the ends, where a row begins with text and ends with noise, every place is as likely; each
    # share has a standard deviation of sqrt(0.15 * 0.85 / 4000) = 0.006.
    assert np.abs(noise[20:-20] - 21 / raw_length).max() < 0.03
    assert noise[0] == 0
    assert noise[-1] == 1


def test_the_seed_decides():
    tokens = tf.tile(tf.range(10, 151)[tf.newaxis], [4, 1])
    one, same, other = (
        span_corruption.corrupt(tokens, (7, seed), SENTINELS)[0].numpy() for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert len(np.unique(one, axis=0)) == 4  # the rows of a batch differ
    assert (one != other).any()


def test_graph_shapes_are_static():
    corrupt = tf.function(lambda tokens: span_corruption.corrupt(tokens, (0, 0), SENTINELS))
    shapes = corrupt.get_concrete_function(tf.TensorSpec([4, 141], tf.int32)).output_shapes
    assert [shape.as_list() for shape in shapes] == [[4, 128], [4, 29]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"noise_density": 0.0},
            r"`noise_density` must be a number in \(0, 1\). Received: noise_density=0.0",
        ),
        (
            {"noise_density": 1.0},
            r"`noise_density` must be a number in \(0, 1\). Received: noise_density=1.0",
        ),
        (
            {"mean_span_length": 0.0},
            r"`mean_span_length` must be a number in \(0, inf\). Received: mean_span_length=0.0",
        ),
        ({"mean_span_length": 0.5}, "must give each span a noise token .* give 30 spans, 15 noise tokens"),
        (
            {"noise_density": 0.9, "mean_span_length": 1.0},
            "give 90 spans, 90 noise tokens and 10 others of 100",
        ),
    ],
)
def test_extreme_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        span_corruption.counts(100, **arguments)


def test_more_spans_than_sentinels_are_refused():
    tokens = tf.zeros([1, span_corruption.lengths(2048)[0]], tf.int32)
    with pytest.raises(ValueError, match=r"one for each of 114 spans in 2274 tokens\. Received: 100"):
        span_corruption.corrupt(tokens, (0, 0), SENTINELS)


@pytest.mark.parametrize("length", [0, 2])
def test_too_short_inputs_are_refused(length):
    with pytest.raises(ValueError, match=f"`input_length` must be an integer >= 3. Received: .*={length}"):
        span_corruption.lengths(length)
