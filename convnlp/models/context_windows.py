"""Rows `question </s> context </s>` of contexts of any length: one row for each window of the context."""

import typing

import tensorflow as tf


class Windows(typing.NamedTuple):
    """Rows of B examples, W of them: an example's one after the other, in the order of its context.

    Attributes:
        token_ids: int32 [W,L].
        padding_mask: bool [W,L], True = token.
        example: int32 [W], in ascending order; each of the B has one at least.
        first: int32 [W], which token of the context is the first of the row.
        place: int32 [W], where it stands in the row: behind the question's end token.
        size: int32 [W], how many tokens of the context the row holds.
    """

    token_ids: tf.Tensor
    padding_mask: tf.Tensor
    example: tf.Tensor
    first: tf.Tensor
    place: tf.Tensor
    size: tf.Tensor

    def labels(self, spans):
        """Which places of its row hold an answer: its first and its last token.

        Args:
            spans: int32 [B,2], the first and the last token of each example's answer in its context.

        Returns:
            int32 [W,2]; the place of the question's end token, twice, where the row does not hold all of it.
        """
        spans = tf.gather(spans, self.example)  # [W,2]
        offset = (self.place - self.first)[:, tf.newaxis]
        nowhere = tf.stack([self.place - 1] * 2, axis=1)
        return tf.where(self.holds(spans)[:, tf.newaxis], spans + offset, nowhere)

    def holds(self, spans):
        """Whether each window holds all of its span, int32 [W,2] -> bool [W]."""
        return (spans[:, 0] >= self.first) & (spans[:, 1] < self.first + self.size)

    def one_each(self, spans):
        """One window of each example: the first that holds its span, else its first one.

        Args:
            spans: as of `labels`.

        Returns:
            int32 [B], numbers of windows.
        """
        number = tf.range(tf.shape(self.example)[0])
        holds = self.holds(tf.gather(spans, self.example))
        last = tf.shape(number)[0]
        holding = tf.math.segment_min(tf.where(holds, number, last), self.example)
        return tf.where(holding < last, holding, tf.math.segment_min(number, self.example))

    def take(self, numbers):
        """Some of the windows."""
        return Windows(*(tf.gather(values, numbers) for values in self))


def windows(question, context, *, sequence_length, stride, max_answer_length, end_token_id):
    """Cuts contexts into windows that overlap.

    A question keeps half of the room of a row at least, and more where the context is short, as in
    `token_rows`. A window is `stride` tokens further on than the one before it, or less, so that every span
    of `max_answer_length` tokens stands in a window as a whole; the last one is full, as all are before it.

    Source: Devlin et al., 2019, and its program `run_squad.py`, https://github.com/google-research/bert.
    Departs from it: the last window reaches as far back as it has room.

    Args:
        question: int32 RaggedTensor [B,(tokens)], without special tokens.
        context: int32 RaggedTensor [B,(tokens)].
        sequence_length: int. L.
        stride: int >= 1. Tokens.
        max_answer_length: int >= 1, at most a quarter of L - 2.
        end_token_id: int.

    Returns:
        `Windows`.

    Example:
    >>> found = windows(tf.ragged.constant([[7]]), tf.ragged.constant([[3, 4, 5, 6, 8]]),
    ...                 sequence_length=6, stride=9, max_answer_length=1, end_token_id=1)
    >>> found.token_ids.numpy().tolist(), found.first.numpy().tolist()
    ([[7, 1, 3, 4, 5, 1], [7, 1, 5, 6, 8, 1]], [0, 2])
    """
    room = sequence_length - 2
    question_size, context_size = (tf.cast(each.row_lengths(), tf.int32) for each in (question, context))
    asked = tf.minimum(question_size, tf.maximum(room - context_size, room - room // 2))  # [B]
    most = room - asked  # tokens of a context in a row
    step = tf.maximum(tf.minimum(stride, most - max_answer_length + 1), 1)  # of an empty context not 0
    left = tf.maximum(context_size - most, 0)  # behind the first window
    count = 1 + -(-left // step)

    example = tf.repeat(tf.range(tf.shape(count)[0]), count)  # [W]
    number = tf.ragged.range(count).flat_values
    first = tf.minimum(number * tf.gather(step, example), tf.gather(left, example))
    asked = tf.gather(asked, example)
    size = tf.minimum(tf.gather(context_size, example) - first, tf.gather(most, example))

    position = tf.range(sequence_length)[tf.newaxis]  # [1,L]
    asked, begin = asked[:, tf.newaxis], first[:, tf.newaxis]
    of_context = position - asked - 1  # [W,L], which token of the window
    ids = tf.where(position < asked, _tokens(question, example, position), 0)
    is_context = (of_context >= 0) & (of_context < size[:, tf.newaxis])
    ids = tf.where(is_context, _tokens(context, example, begin + of_context), ids)
    ids = tf.where((position == asked) | (of_context == size[:, tf.newaxis]), end_token_id, ids)
    mask = of_context <= size[:, tf.newaxis]
    ids, mask = (tf.ensure_shape(values, [None, sequence_length]) for values in (ids, mask))
    return Windows(ids, mask, example, first, tf.squeeze(asked, 1) + 1, size)


def _tokens(ragged, example, places):
    """Tokens of rows [B,(n)] by example [W] and place [W,L]; anything where there is none."""
    values = tf.concat([tf.cast(ragged.flat_values, tf.int32), [0]], axis=0)
    starts = tf.cast(tf.gather(ragged.row_starts(), example), tf.int32)[:, tf.newaxis]  # [W,1]
    return tf.gather(values, tf.clip_by_value(starts + places, 0, tf.shape(values)[0] - 1))
