"""Finds the most probable span of a context, by the logits of its beginning and its end."""

import tensorflow as tf

LOWEST = -1e4  # logit of places that no pointer may choose; within float16's range, and its exp is 0


def best_spans(logits, is_context, max_answer_length):
    """Returns the best of all spans of a row, by exact search.

        (i, j) = argmax  log p(begin = i) + log p(end = j)       i <= j < i + A, i and j tokens of the context

    Among equal spans, the first to begin wins, and among these the shortest. The probabilities are taken over
    all places that the pointers may choose: what they give to the question's end token, "not in this row",
    lowers all spans of the row, so that the spans of several windows can be compared.

    Args:
        logits: float32 [W,2,T], of the beginning and the end.
        is_context: bool [W,T], the tokens of the context.
        max_answer_length: int >= 1. A.

    Returns:
        (int32 [W] begin, int32 [W] end, float32 [W] the product of their probabilities); all three are 0 for
        a row without a context.

    Example:
    >>> logits = tf.constant([[[0.0, 9.0, 0.0], [9.0, 0.0, 5.0]]])
    >>> begin, end, _ = best_spans(logits, tf.constant([[True, True, True]]), 2)
    >>> int(begin[0]), int(end[0])
    (1, 2)
    """
    logs = tf.nn.log_softmax(logits)
    begin, end = (tf.where(is_context, logs[:, pointer], 2 * LOWEST) for pointer in (0, 1))  # [W,T]
    end = tf.pad(end, [[0, 0], [0, max_answer_length - 1]], constant_values=2 * LOWEST)
    length = tf.shape(is_context)[1]
    ends = tf.range(length)[:, tf.newaxis] + tf.range(max_answer_length)  # [T,A]
    sums = begin[:, :, tf.newaxis] + tf.gather(end, ends, axis=1)  # [W,T,A]
    sums = tf.reshape(sums, [-1, length * max_answer_length])
    best = tf.argmax(sums, axis=1, output_type=tf.int32)  # [W]
    first = best // max_answer_length
    return first, first + best % max_answer_length, tf.exp(tf.reduce_max(sums, axis=1))
