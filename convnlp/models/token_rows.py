"""Turns ragged token ids into the fixed rows that a model reads, with ops that TFLite has too."""

import numbers

import tensorflow as tf


def token_rows(segments, sequence_length, end_token_id):
    """Returns rows of one or two segments, each closed by the end token, then pads (id 0).

    If a single segment is too long, its tail is cut. Of two segments, the longer one is cut until both fit
    ("longest first"), so that a short question survives a long passage.

    Args:
        segments: one or two int32 RaggedTensors [B,None], without special tokens.
        sequence_length: int. L, the length of every row.
        end_token_id: int.

    Returns:
        (int32 [B,L] ids, bool [B,L] mask, True = token).
    """
    room = sequence_length - len(segments)
    lengths = [tf.cast(segment.row_lengths(), tf.int32) for segment in segments]
    if len(segments) == 1:
        kept = [tf.minimum(lengths[0], room)]
    else:
        first = tf.minimum(lengths[0], tf.maximum(room - lengths[1], room - room // 2))
        kept = [first, tf.minimum(lengths[1], room - first)]

    position = tf.expand_dims(tf.range(sequence_length), 0)  # [1,L]
    start = tf.zeros_like(kept[0])
    ids = tf.zeros_like(position)
    for segment, length in zip(segments, kept, strict=True):
        dense = segment.to_tensor(shape=[None, sequence_length])  # [B,L]
        index = position - tf.expand_dims(start, 1)  # [B,L], position inside the segment
        length = tf.expand_dims(length, 1)
        token = tf.gather(dense, tf.clip_by_value(index, 0, sequence_length - 1), batch_dims=1)
        ids = tf.where((index >= 0) & (index < length), token, ids)
        ids = tf.where(index == length, end_token_id, ids)
        start += tf.squeeze(length, 1) + 1
    return ids, position < tf.expand_dims(start, 1)


def batched(text):
    """Returns `text` as a string tensor [B], and whether it was a single string."""
    text = tf.convert_to_tensor(text, tf.string)
    single = text.shape.rank == 0
    return (tf.expand_dims(text, 0) if single else text), single


def unbatched(rows, single):
    """Returns tensors made of a `batched` text, in any structure, without the axis B if it was single."""
    return tf.nest.map_structure(lambda value: tf.squeeze(value, 0), rows) if single else rows


def text_batches(texts, batch_size):
    """Yields batches of texts; the last is filled up with "", so that one graph serves all.

    Args:
        texts: list of N str, or a tuple of two lists for pairs.
        batch_size: int >= 1, B.

    Yields:
        (list of B str, or a tuple of two; how many of them come from `texts`).

    Raises:
        ValueError: if `batch_size` is out of its range.
    """
    batch_size = check_length("batch_size", batch_size, 1)
    columns = texts if isinstance(texts, tuple) else (texts,)
    for start in range(0, len(columns[0]), batch_size):
        chunks = [list(column[start : start + batch_size]) for column in columns]
        count = len(chunks[0])
        chunks = [chunk + [""] * (batch_size - count) for chunk in chunks]
        yield tuple(chunks) if isinstance(texts, tuple) else chunks[0], count


def check_length(name, value, least):
    """Returns `value`, or raises ValueError unless it is a whole number >= `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"`{name}` must be a whole number >= {least}. Received: {value!r}")
    return int(value)
