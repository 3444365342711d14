"""Locates an answer in its context: in characters, in bytes and in tokens."""

import unicodedata

import tensorflow as tf


def find(context, answers):
    """Returns the bytes of the first answer that occurs in a context.

    If the answer occurs several times, the first place where it is not part of a longer word is taken, such
    as "in" in "find it in"; it need not be the one that is meant. White space around an answer is dropped.

    Args:
        context: str.
        answers: iterable of str.

    Returns:
        (begin, end) int, offsets into the context's UTF-8; None if no answer occurs in it.

    Example:
    >>> find("To find it in the valley.", ["on", "in"])
    (11, 13)
    """
    for answer in filter(None, map(str.strip, answers)):
        places = list(_places(context, answer))
        if places:
            place = next((each for each in places if _is_whole(context, each, len(answer))), places[0])
            begin = len(context[:place].encode())
            return begin, begin + len(answer.encode())
    return None


def _places(context, answer):
    place = context.find(answer)
    while place >= 0:
        yield place
        place = context.find(answer, place + 1)


def _is_whole(context, place, length):
    """Whether neither end of this place is between two letters, marks (such as accents) or numbers."""
    sides = context[max(place - 1, 0) : place + 1], context[place + length - 1 : place + length + 1]
    return not any(
        len(side) == 2 and all(unicodedata.category(x)[0] in "LMN" for x in side) for side in sides
    )


def token_spans(begins, ends, spans):
    """Returns the tokens that hold spans of bytes.

    The first token is the last to begin among the tokens that hold the first byte; the last token is the
    first to end among those that hold the last byte. If several pieces stand for the same word, they are the
    first and the last of these pieces. See `Tokenizer.ragged_with_offsets`.

    Args:
        begins: int32 RaggedTensor [B,(n)], where each token begins.
        ends: int32 RaggedTensor [B,(n)], where it ends.
        spans: int32 [B,2], the bytes [begin, end) of each span; (0, 0) for none.

    Returns:
        int32 [B,2], the first and the last token; (-1, -1) where there is none.

    Example:
    >>> begins, ends = tf.ragged.constant([[0, 4, 9]]), tf.ragged.constant([[3, 9, 10]])
    >>> token_spans(begins, ends, tf.constant([[4, 9]])).numpy().tolist()
    [[1, 1]]
    """
    begin, end = spans[:, :1], spans[:, 1:]  # [B,1]
    # One more token, which holds nothing, so that there is at least one.
    begins = tf.pad(begins.to_tensor(default_value=-1), [[0, 0], [0, 1]], constant_values=-1)  # [B,T]
    ends = tf.pad(ends.to_tensor(default_value=-1), [[0, 0], [0, 1]], constant_values=-1)
    holds_first = (begins <= begin) & (begin < ends)
    holds_last = (begins < end) & (end <= ends)
    first = tf.argmax(tf.where(holds_first, begins, -1), axis=1, output_type=tf.int32)  # [B]
    backwards = tf.reverse(tf.where(holds_last, -ends, tf.int32.min), axis=[1])
    last = tf.shape(ends)[1] - 1 - tf.argmax(backwards, axis=1, output_type=tf.int32)
    is_there = tf.reduce_any(holds_first, axis=1) & tf.reduce_any(holds_last, axis=1) & (first <= last)
    is_there &= spans[:, 0] < spans[:, 1]
    return tf.where(is_there[:, tf.newaxis], tf.stack([first, last], axis=1), -1)
