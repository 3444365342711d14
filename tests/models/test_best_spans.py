"""The best span and the windows of a context, against loops over all of them."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from convnlp.models.best_spans import LOWEST, best_spans
from convnlp.models.context_windows import windows

END = 1


def best_by_loop(logits, is_context, longest):
    """(begin, end, score) of one row."""
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    found = (0, 0, 0.0)
    for begin, end in itertools.product(range(len(is_context)), repeat=2):
        if is_context[begin] and is_context[end] and begin <= end < begin + longest:
            score = shares[0, begin] * shares[1, end]
            found = (begin, end, score) if score > found[2] else found
    return found


@pytest.mark.parametrize("longest", [1, 3, 20])
def test_the_best_span_is_that_of_a_loop_over_all(longest):
    random = np.random.default_rng(longest)
    logits = random.normal(size=[200, 2, 12]).astype("float32") * 3
    question = random.integers(0, 6, [200, 1])
    place, last = np.arange(12), random.integers(5, 12, [200, 1])
    is_context = (place > question) & (place < last)
    allowed = (place >= question) & (place < last)  # "not in this row" too
    logits = np.where(allowed[:, np.newaxis], logits, np.float32(LOWEST))
    begin, end, score = best_spans(tf.constant(logits), tf.constant(is_context), longest)
    expected = [best_by_loop(*row, longest) for row in zip(logits.astype("float64"), is_context, strict=True)]
    found = list(zip(begin.numpy(), end.numpy(), strict=True))
    assert found == [row[:2] for row in expected]
    np.testing.assert_allclose(score, [row[2] for row in expected], rtol=1e-5)  # float32
    if longest == 20:
        crossed = [b < a for a, b in logits.argmax(axis=2)]
        assert any(crossed)  # each pointer by itself would give no span


def test_equal_spans_and_rows_without_a_context():
    is_context = tf.constant([[False, True, True, True], [False, False, False, False]])
    begin, end, score = best_spans(tf.zeros([2, 2, 4]), is_context, 3)
    assert begin.numpy().tolist() == [1, 0]
    assert end.numpy().tolist() == [1, 0]
    assert score[0] == 1 / 16
    assert score[1] == 0


def rows_by_loop(question, context, length, stride, longest):
    """The windows of one example: list of (row without pads, first token)."""
    room = length - 2
    asked = min(len(question), max(room - len(context), room - room // 2))
    most = room - asked
    step, firsts = min(stride, most - longest + 1), [0]
    while firsts[-1] + most < len(context):
        firsts.append(min(firsts[-1] + step, len(context) - most))
    return [([*question[:asked], END, *context[i : i + most], END], i) for i in firsts]


def ragged(rows):
    tokens, lengths = [token for row in rows for token in row], [len(row) for row in rows]
    return tf.RaggedTensor.from_row_lengths(tf.constant(tokens, tf.int32), tf.constant(lengths, tf.int64))


TOKENS = st.lists(st.integers(2, 50), max_size=40)
ROWS = st.integers(6, 20).flatmap(  # L, and the longest answer that it allows
    lambda length: st.tuples(st.just(length), st.integers(1, (length - 2) // 4))
)


@settings(max_examples=70, deadline=None)
@given(examples=st.lists(st.tuples(TOKENS, TOKENS), max_size=3), sizes=ROWS, stride=st.integers(1, 15))
@example(examples=[([2], list(range(3, 43)))], sizes=(12, 2), stride=15)  # of 9 tokens each, 8 apart
def test_windows_are_those_of_a_loop(examples, sizes, stride):
    length, longest = sizes
    question, context = (ragged([each[part] for each in examples]) for part in (0, 1))
    found = windows(
        question,
        context,
        sequence_length=length,
        stride=stride,
        max_answer_length=longest,
        end_token_id=END,
    )
    expected = [
        (number, row, first)
        for number, example in enumerate(examples)
        for row, first in rows_by_loop(*example, length, stride, longest)
    ]
    ids, mask = found.token_ids.numpy(), found.padding_mask.numpy()
    assert ids.shape == mask.shape == (len(expected), length)
    assert not ids[~mask].any()
    rows = [row[kept].tolist() for row, kept in zip(ids, mask, strict=True)]
    assert list(zip(found.example.numpy(), rows, found.first.numpy(), strict=True)) == expected
    for i, (number, row, first) in enumerate(expected):
        place, size = int(found.place[i]), int(found.size[i])
        assert row[place : place + size] == examples[number][1][first : first + size]
        assert row[place - 1] == row[place + size] == END
    for number, (_, tokens) in enumerate(examples):
        places = zip(found.example.numpy(), found.first.numpy(), found.size.numpy(), strict=True)
        seen = [(first, first + size) for i, first, size in places if i == number]
        for begin in range(max(0, len(tokens) - longest + 1)):
            assert any(a <= begin and begin + longest <= b for a, b in seen)


def test_labels_point_at_the_answer_or_at_the_end_of_the_question():
    question, context = tf.ragged.constant([[7], [7, 8]]), tf.ragged.constant([[3, 4, 5, 6, 9], [3]])
    found = windows(
        question, context, sequence_length=6, stride=9, max_answer_length=1, end_token_id=END
    )  # the first context in windows from 0 and from 2
    spans = tf.constant([[3, 4], [-1, -1]])
    assert found.labels(spans).numpy().tolist() == [[1, 1], [3, 4], [2, 2]]
    past_the_first = tf.constant([[3, 3], [-1, -1]])
    assert found.labels(past_the_first).numpy().tolist() == [[1, 1], [3, 3], [2, 2]]
    assert found.one_each(spans).numpy().tolist() == [1, 2]
    assert found.one_each(tf.constant([[2, 2], [0, 0]])).numpy().tolist() == [0, 2]
    assert found.take([1]).token_ids.numpy().tolist() == [[7, 1, 5, 6, 9, 1]]
