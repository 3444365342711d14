"""Makes rows `question </s> context </s>` for contexts of any length, one for each window of the context."""

import typing

import tensorflow as tf


class Windows(typing.NamedTuple):
    """W rows of B examples; the rows of an example follow each other in the order of its context.

    Attributes:
        token_ids: int32 [W,L].
        padding_mask: bool [W,L], True = token.
        example: int32 [W], number of the example, ascending; each of the B examples has at least one row.
        first: int32 [W], which token of the context is the first in the row.
        place: int32 [W], where in the row this token is: right after the question's end token.
        size: int32 [W], how many tokens of the context the row holds.
    """

    token_ids: tf.Tensor
    padding_mask: tf.Tensor
    example: tf.Tensor
    first: tf.Tensor
    place: tf.Tensor
    size: tf.Tensor

    def labels(self, spans):
        """Returns the places of an answer's first and last token in its row.

        Args:
            spans: int32 [B,2], the first and the last token of each example's answer in its context.

        Returns:
            int32 [W,2]; if a row does not hold the whole answer, twice the place of the question's end token.
        """
        spans = tf.gather(spans, self.example)  # [W,2]
        offset = (self.place - self.first)[:, tf.newaxis]
        nowhere = tf.stack([self.place - 1] * 2, axis=1)
        return tf.where(self.holds(spans)[:, tf.newaxis], spans + offset, nowhere)

    def holds(self, spans):
        """Whether each window holds all of its span, int32 [W,2] -> bool [W]."""
        return (spans[:, 0] >= self.first) & (spans[:, 1] < self.first + self.size)

    def one_each(self, spans):
        """Picks one window per example: the first that holds its span, or else its first one.

        Args:
            spans: as for `labels`.

        Returns:
            int32 [B], numbers of windows.
        """
        number = tf.range(tf.shape(self.example)[0])
        holds = self.holds(tf.gather(spans, self.example))
        last = tf.shape(number)[0]
        holding = tf.math.segment_min(tf.where(holds, number, last), self.example)
        return tf.where(holding < last, holding, tf.math.segment_min(number, self.example))

    def take(self, numbers):
        """Returns some of the windows."""
        return Windows(*(tf.gather(values, numbers) for values in self))


def windows(question, context, *, sequence_length, stride, max_answer_length, end_token_id):
    """Cuts contexts into overlapping windows.

    A question may fill at least half of a row, and more if the context is short, as in `token_rows`. Each
    window begins at most `stride` tokens after the one before it, so that every span of `max_answer_length`
    tokens lies wholly in some window. The last window is full, like all windows before it.

    Source: Devlin et al., 2019, and its program `run_squad.py`, https://github.com/google-research/bert.
    Departs from it: the last window reaches back as far as it has room.

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
    step = tf.maximum(tf.minimum(stride, most - max_answer_length + 1), 1)  # not 0 for an empty context
    left = tf.maximum(context_size - most, 0)  # after the first window
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
    """Gathers tokens of rows [B,(n)] by example [W] and place [W,L]; arbitrary where there is none."""
    values = tf.concat([tf.cast(ragged.flat_values, tf.int32), [0]], axis=0)
    starts = tf.cast(tf.gather(ragged.row_starts(), example), tf.int32)[:, tf.newaxis]  # [W,1]
    return tf.gather(values, tf.clip_by_value(starts + places, 0, tf.shape(values)[0] - 1))
