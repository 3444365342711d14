"""Labelled examples held in memory as token ids; `batching` makes batches of them.

Fine-tuning data are small compared with pre-training text: they are read and tokenized once, before training,
so that a wrong label in the last line is reported at once and the number of steps per epoch is known.
"""

import dataclasses
import typing

import numpy as np
import tensorflow as tf
from absl import logging

from convnlp.data import errors, sources
from convnlp.data.batching import dense, labelled_batches, num_batches, order, order_by_length
from convnlp.data.schema import SEVERAL

__all__ = [
    "Examples",
    "Rows",
    "concatenate",
    "dense",
    "first_of_several",
    "labelled_batches",
    "load",
    "num_batches",
    "order",
    "order_by_length",
    "warn_of",
]

MAX_UNKNOWN = 0.01  # share of the pieces that a person should know of


class Rows(typing.NamedTuple):
    """The fields that make up a row of token ids, its maximum length, and the option that sets the length."""

    fields: tuple
    length: int
    option: str = "data.input_length"
    several: bool = False  # whether a field may hold a list of texts, of which the row uses the first


@dataclasses.dataclass(frozen=True)
class Examples:
    """Examples of a source in memory, made by `load`.

    Attributes:
        columns: tuple of int32 RaggedTensors [n, (tokens)], one for each of the `Rows`.
        lengths: tuple of ints, the maximum number of tokens in a row of each column.
        labels: int64 array [n] of classes, float32 [n] of numbers, float32 [n,C] of several labels, or None.
        texts: dict, field -> list of n strings, with `schema.SEVERAL` between several texts of an example;
            empty unless `load` was asked to keep them.
        soft_labels: float32 array [n,C], the probability of each class, or None. Default None.
        weights: float32 array [n], how much each example counts in training, or None. Default None.
        groups: uint64 array [n], a hash that the examples of a group share; a group is held out as a whole.
            Default None: each example is its own group.
        places: int64 array [n], the place of each example among those of its source, from 0. Default None:
            not known.
    """

    columns: tuple
    lengths: tuple
    labels: np.ndarray | None = None
    texts: dict = dataclasses.field(default_factory=dict)
    soft_labels: np.ndarray | None = None
    weights: np.ndarray | None = None
    groups: np.ndarray | None = None
    places: np.ndarray | None = None

    def __len__(self):
        return int(self.columns[0].nrows())

    def take(self, indices):
        """Returns the examples with these indices, in this order.

        Args:
            indices: int array [m] of numbers in [0, n).

        Returns:
            `Examples`.
        """

        def taken(array):
            return None if array is None else array[indices]

        return dataclasses.replace(
            self,
            columns=tuple(tf.gather(column, indices) for column in self.columns),
            labels=taken(self.labels),
            texts={field: [texts[i] for i in indices] for field, texts in self.texts.items()},
            soft_labels=taken(self.soft_labels),
            weights=taken(self.weights),
            groups=taken(self.groups),
            places=taken(self.places),
        )

    def followed_by(self, other):
        """Returns these examples and then those of another `Examples`, without texts, groups and places."""

        def joined(ours, others):
            return None if ours is None else np.concatenate([ours, others])

        return dataclasses.replace(
            self,
            columns=tuple(tf.concat(pair, axis=0) for pair in zip(self.columns, other.columns, strict=True)),
            labels=joined(self.labels, other.labels),
            texts={},
            soft_labels=joined(self.soft_labels, other.soft_labels),
            weights=joined(self.weights, other.weights),
            groups=None,
            places=None,
        )


def load(source, tokenizer, rows, *, label=None, keep_texts=False):
    """Reads and tokenizes all examples; logs how many are cut or empty, and unknown pieces.

    Args:
        source: `Source`.
        tokenizer: has `tokenize`, `end_token_id` and `unk_token_id`.
        rows: list of `Rows`. A row holds the texts of its fields, each followed by the end token; if they are
            too long together, the longest is cut first.
        label: `Label`, `Number`, `MultiLabel` or None.
        keep_texts: bool, whether to keep the texts as well as their tokens. Default False.

    Returns:
        `Examples`.

    Raises:
        SourceError: as `sources.read`, for any example.
        ValueError: if a row has no room for a token of each field.
    """
    for row in rows:
        if row.length < 2 * len(row.fields):
            names, least = ", ".join(row.fields), 2 * len(row.fields)
            raise ValueError(
                f"`{row.option}` must be at least {least} for a row of {names}. "
                f"Received: {row.option}={row.length}"
            )
    fields = tuple(dict.fromkeys(field for row in rows for field in row.fields))

    @tf.autograph.experimental.do_not_convert
    def tokenize(block):
        built = [
            concatenate(
                [
                    tokenizer.tokenize(first_of_several(block[field]) if row.several else block[field])
                    for field in row.fields
                ],
                row.length,
                tokenizer.end_token_id,
            )
            for row in rows
        ]
        ids, counts = zip(*built, strict=True)
        texts = {field: block[field] for field in fields if keep_texts}
        return ids, counts, block.get("label", tf.zeros([0], tf.int64)), texts

    several = {field for row in rows if row.several for field in row.fields}
    blocks = sources.read_blocks(source, fields, label, several=several)
    with errors.unwrapped():
        blocks = list(blocks.map(tokenize, tf.data.AUTOTUNE, deterministic=True))
    columns, counts, labels, texts = zip(*blocks, strict=True)
    columns = tuple(tf.concat(column, axis=0) for column in zip(*columns, strict=True))
    for row, column, count in zip(rows, columns, zip(*counts, strict=True), strict=True):
        _warn_of_rows(source, row, column, sum(map(int, count)), tokenizer.unk_token_id)
    return Examples(
        columns,
        tuple(row.length for row in rows),
        np.concatenate([column.numpy() for column in labels]) if label else None,
        {
            field: [text.decode() for block in texts for text in block[field].numpy()]
            for field in fields
            if keep_texts
        },
        places=np.arange(int(columns[0].nrows())),
    )


def _warn_of_rows(source, row, ids, num_cut, unknown):
    """Logs how many rows of ids, int32 [n, (tokens)], are cut or empty, and the share of unknown pieces."""
    total, what = int(ids.nrows()), " + ".join(row.fields)
    if num_cut:
        message = "%s: truncated %d of %d examples (%s) to %d tokens of %s; raise %s to keep more"
        share = f"{num_cut / total:.1%}"
        logging.warning(message, source, num_cut, total, share, row.length, what, row.option)
    if num_empty := int(np.sum(ids.row_lengths() <= len(row.fields))):  # only end tokens
        warn_of(source, num_empty, total, f"have no text in {what}")
    if (share := np.mean(ids.values == unknown)) > MAX_UNKNOWN:
        message = (
            "%s: %s of the pieces of %s are unknown to the vocabulary; is the text garbled, or in a language "
            "that it was not made for?"
        )
        logging.warning(message, source, f"{share:.1%}", what)


def warn_of(source, count, total, what):
    """Logs how many of a source's examples have a property that matters, such as "have no answer"."""
    logging.warning("%s: %d of %d examples (%s) %s", source, count, total, f"{count / total:.1%}", what)


def first_of_several(texts):
    """Returns the first text of each value of a field that may hold several: string [n] -> string [n]."""
    return tf.strings.regex_replace(texts, f"(?s){SEVERAL}.*", "")


def concatenate(segments, length, end_token_id):
    """Joins ragged token ids into rows of at most `length`, cutting the longest segment first.

    Args:
        segments: list of one or two int RaggedTensors [n, (tokens)].
        length: int, including one end token per segment.
        end_token_id: int.

    Returns:
        (rows, count): int32 RaggedTensor [n, (tokens)], and the number of rows that were cut.

    Raises:
        ValueError: if there are more than two segments.

    Example:
    >>> rows, count = concatenate([tf.ragged.constant([[5, 6, 7, 8]]), tf.ragged.constant([[9, 9]])], 6, 1)
    >>> rows.to_list(), int(count)
    ([[5, 6, 1, 9, 9, 1]], 1)
    """
    room = length - len(segments)
    segments = [tf.cast(segment.with_row_splits_dtype(tf.int64), tf.int32) for segment in segments]
    lengths = [segment.row_lengths() for segment in segments]
    if len(segments) == 1:
        kept = [tf.minimum(lengths[0], room)]
    elif len(segments) == 2:
        first = tf.minimum(lengths[0], tf.maximum(room - lengths[1], room - room // 2))
        kept = [first, tf.minimum(lengths[1], room - first)]
    else:
        raise ValueError(f"`segments` must be one or two texts. Received: {len(segments)}")
    end = tf.fill([segments[0].nrows(), 1], end_token_id)
    parts = []
    for segment, size in zip(segments, kept, strict=True):
        place = tf.ragged.range(segment.row_lengths()).flat_values  # of each token in its segment
        is_kept = place < tf.gather(size, segment.value_rowids())
        tokens = tf.boolean_mask(segment.flat_values, is_kept)
        parts += [tf.RaggedTensor.from_row_lengths(tokens, size, validate=False), end]
    return tf.concat(parts, axis=1), tf.math.count_nonzero(sum(lengths) > room)
