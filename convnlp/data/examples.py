"""Labelled examples held in memory as token ids, and their order in batches.

Fine-tuning data are small compared with pre-training text: they are read and tokenized once, before training,
so that a wrong label in the last line is reported at once and the number of steps per epoch is known.
"""

import dataclasses
import typing

import numpy as np
import tensorflow as tf
from absl import logging

from convnlp.data import errors, rules, sources
from convnlp.data.schema import SEVERAL
from convnlp.data.source import ALL

POOLED_GROUPS = 10  # groups of batches that are cut from a pool of examples sorted by length
NUM_BUCKETS = 8  # different lengths of batches; the training step is traced for each
_SEED_KEY = 498247692  # any number with many bits: a key of zeros hardly mixes the permutations


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
    """

    columns: tuple
    lengths: tuple
    labels: np.ndarray | None = None
    texts: dict = dataclasses.field(default_factory=dict)
    soft_labels: np.ndarray | None = None
    weights: np.ndarray | None = None
    groups: np.ndarray | None = None

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
        )

    def followed_by(self, other):
        """Returns these examples and then those of another `Examples`, without texts and groups."""

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
        )


def load(source, tokenizer, rows, *, label=None, keep_texts=False, num_parallel_calls=tf.data.AUTOTUNE):
    """Reads and tokenizes all examples.

    Args:
        source: `Source`.
        tokenizer: has `tokenize` and `end_token_id`.
        rows: list of `Rows`. A row holds the texts of its fields, each followed by the end token; if they are
            too long together, the longest is cut first.
        label: `Label`, `Number`, `MultiLabel` or None.
        keep_texts: bool, whether to keep the texts as well as their tokens. Default False.
        num_parallel_calls: int, threads that tokenize. Defaults to tf.data's choice.

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
        blocks = list(blocks.map(tokenize, num_parallel_calls, deterministic=True))
    columns, counts, labels, texts = zip(*blocks, strict=True)
    columns = tuple(tf.concat(column, axis=0) for column in zip(*columns, strict=True))
    for row, count in zip(rows, (sum(map(int, column)) for column in zip(*counts, strict=True)), strict=True):
        if count:
            total, what = columns[0].nrows(), " + ".join(row.fields)
            message = "%s: truncated %d of %d examples (%s) to %d tokens of %s; raise %s to keep more"
            share = f"{count / int(total):.1%}"
            logging.warning(message, source, count, total, share, row.length, what, row.option)
    return Examples(
        columns,
        tuple(row.length for row in rows),
        np.concatenate([column.numpy() for column in labels]) if label else None,
        {
            field: [text.decode() for block in texts for text in block[field].numpy()]
            for field in fields
            if keep_texts
        },
    )


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


def num_batches(count, batch_size, num_epochs):
    """Returns the number of whole batches in `num_epochs` of `count` examples, at least 1.

    Args:
        count: int.
        batch_size: int, of all workers together.
        num_epochs: float > 0.

    Raises:
        ValueError: if `num_epochs` is not a number > 0.

    Example:
    >>> num_batches(count=100, batch_size=32, num_epochs=2.5)
    7
    """
    rules.number("(0, inf)").check("num_epochs", num_epochs)
    return max(int(count * num_epochs) // batch_size, 1)


def order(count, batch_size, *, training, seed=0, num_epochs=None, shard=ALL):
    """Returns the examples in each batch of a worker; they depend only on the batch's number.

    In training, every epoch is a different permutation, and a batch may hold the end of one epoch and the
    beginning of the next; the batches of all workers together are the same for any number of workers. In
    evaluation, every example occurs once, in order.

    Args:
        count: int, number of examples.
        batch_size: int, of one worker.
        training: bool.
        seed: int. Default 0.
        num_epochs: float, length of training; None for endless training. Ignored in evaluation.
        shard: `Shard`, the part of this worker. Defaults to all.

    Returns:
        A tf.data.Dataset of (int64 [batch_size] indices, float32 [batch_size] weights): weight 0 marks the
        indices that fill up the last batch of an evaluation. Its cardinality is known.

    Raises:
        ValueError: if there are no examples, or a number is out of range.

    Example:
    >>> for indices, weights in order(3, 2, training=False):
    ...     print(indices.numpy(), weights.numpy())
    [0 1] [1. 1.]
    [2 0] [1. 0.]
    """
    rules.integer(1).check("count", count)
    rules.integer(1).check("batch_size", batch_size)
    global_batch_size = batch_size * shard.count

    @tf.autograph.experimental.do_not_convert
    def batch(number):
        place = number * global_batch_size + shard.index * batch_size + tf.range(batch_size, dtype=tf.int64)
        epoch, index = place // count, place % count
        if not training:
            return index, tf.cast(epoch == 0, tf.float32)
        seeds = tf.stack(
            [tf.fill([batch_size], tf.constant(key, tf.int64)) for key in (_SEED_KEY, seed)] + [epoch], 1
        )
        # The permutation is computed for each place: nothing is kept in memory or in a checkpoint. It is the
        # raw op because tf.random.experimental.index_shuffle does not take a seed per place, which a batch of
        # two epochs needs.
        shuffled = tf.raw_ops.RandomIndexShuffle(
            index=index, seed=tf.cast(seeds, tf.int32), max_index=tf.constant(count - 1, tf.int64), rounds=4
        )
        return shuffled, tf.ones([batch_size])

    if not training:
        numbers = tf.data.Dataset.range(-(-count // global_batch_size))
    elif num_epochs is None:
        numbers = tf.data.Dataset.counter()
    else:
        numbers = tf.data.Dataset.range(num_batches(count, global_batch_size, num_epochs))
    return numbers.map(batch)


def order_by_length(lengths, batch_size, group, *, training, seed=0, shard=ALL):
    """Like `order`, with examples of similar length next to each other.

    In training, the examples of `POOLED_GROUPS` groups are sorted by length and cut into these groups; the
    order of the groups is random, and so is the order within each group. In evaluation, all examples are
    sorted.

    Args:
        lengths: int array [n], tokens of each example.
        batch_size: int, of one worker.
        group: int >= 1, number of consecutive batches that get examples of similar length.
        training: bool.
        seed: int. Default 0.
        shard: `Shard`, the part of this worker. Defaults to all.

    Returns:
        A tf.data.Dataset of groups: (int64 [group, batch_size] indices, float32 [group, batch_size] weights).
        In training it is endless; in evaluation its cardinality is known.

    Raises:
        ValueError: as `order`.

    Example:
    >>> for indices, weights in order_by_length([7, 9, 2], 2, 1, training=False):
    ...     print(indices.numpy(), weights.numpy())
    [[2 0]] [[1. 1.]]
    [[1 2]] [[1. 0.]]
    """
    rules.integer(1).check("group", group)
    rules.integer(1).check("batch_size", batch_size)
    lengths = tf.cast(lengths, tf.int32)
    global_batch_size = batch_size * shard.count
    first = shard.index * batch_size

    def own(indices, weights):
        """Returns this worker's part of groups [..., group, global_batch_size]."""
        return indices[..., first : first + batch_size], weights[..., first : first + batch_size]

    if not training:
        by_length = tf.argsort(lengths, stable=True)

        @tf.autograph.experimental.do_not_convert
        def sorted_group(place, weights):
            shape = [group, global_batch_size]
            indices = tf.cast(tf.gather(by_length, place), tf.int64)
            return own(tf.reshape(indices, shape), tf.reshape(weights, shape))

        return order(len(lengths), group * global_batch_size, training=False).map(sorted_group)

    @tf.autograph.experimental.do_not_convert
    def pool(number, taken):
        indices, weights = taken
        indices = tf.gather(indices, tf.argsort(tf.gather(lengths, indices), stable=True))
        groups = tf.reshape(indices, [POOLED_GROUPS, group * global_batch_size])
        key = tf.stack([tf.constant(seed, tf.int64), number])
        groups = tf.random.experimental.stateless_shuffle(groups, key)
        # Shuffling within groups, all by the same permutation, makes each batch a random part of its group.
        mixed = tf.transpose(tf.random.experimental.stateless_shuffle(tf.transpose(groups), key))
        shape = [POOLED_GROUPS, group, global_batch_size]
        return own(tf.reshape(mixed, shape), tf.reshape(weights, shape))

    size = POOLED_GROUPS * group * global_batch_size
    pools = order(len(lengths), size, training=True, seed=seed).enumerate()
    return pools.map(pool).unbatch()


def labelled_batches(found, batch_size, *, training, group=None, **options):
    r"""Returns batches with a row of token ids and a label per example.

    Args:
        found: `Examples` with one column and labels.
        batch_size: int, B, of this worker.
        training: bool. True: shuffled, for `num_epochs`, full batches. False: all examples once, in order;
            the last batch is filled up with examples of weight 0.
        group: int, number of consecutive batches that are padded to the same length, which fits their longest
            example; see `order_by_length`. Evaluation is then in order of length, and the last group is
            filled up. Default None: all batches have the full length L.
        **options: `seed`, `num_epochs` (without `group`) and `shard` of `order`.

    Returns:
        A tf.data.Dataset of dicts: `token_ids` int32 [B,L], `padding_mask` bool [B,L], `label` int32 [B] or
        float32 [B] or [B,C], `weight` float32 [B], and `soft_label` float32 [B,C] if the examples have them.
        Its cardinality is the number of batches, which is infinite in endless training.

    Raises:
        ValueError: as `order`.

    Example:
    >>> rows = [{"text": "A fine day.", "stars": 4.5}, {"text": "A lost day.", "stars": 1}]
    >>> _ = open("days.jsonl", "w").write("\n".join(map(json.dumps, rows)))
    >>> found = load(Source("jsonl:days.jsonl"), tokenizer, [Rows(("text",), 8)], label=Number("stars"))
    >>> for batch in labelled_batches(found, batch_size=4, training=False):
    ...     print(batch["label"].numpy(), batch["weight"].numpy())
    [4.5 1.  4.5 1. ] [1. 1. 0. 0.]
    """
    (ids,), (length,) = found.columns, found.lengths
    labels = tf.constant(found.labels, tf.int32 if found.labels.dtype.kind == "i" else tf.float32)
    soft_labels = None if found.soft_labels is None else tf.constant(found.soft_labels)
    own_weights = None if found.weights is None else tf.constant(found.weights)

    @tf.autograph.experimental.do_not_convert
    def batch(indices, weights, longest=length):
        token_ids, padding_mask = dense(tf.gather(ids, indices), [batch_size, longest])
        return {
            "token_ids": token_ids,
            "padding_mask": padding_mask,
            "label": tf.gather(labels, indices),
            "weight": weights if own_weights is None else weights * tf.gather(own_weights, indices),
            **({} if soft_labels is None else {"soft_label": tf.gather(soft_labels, indices)}),
        }

    if group is None:
        batches = order(len(found), batch_size, training=training, **options).map(batch)
        return batches.prefetch(tf.data.AUTOTUNE)
    lengths, step = ids.row_lengths(), 8 * -(-length // (8 * NUM_BUCKETS))

    @tf.autograph.experimental.do_not_convert
    def with_longest(indices, weights):
        longest = tf.reduce_max(tf.gather(lengths, indices))
        longest = tf.minimum(step * -(-longest // step), length)
        return indices, weights, tf.fill([group], longest)

    groups = order_by_length(lengths, batch_size, group, training=training, **options)
    return groups.map(with_longest).unbatch().map(batch).prefetch(tf.data.AUTOTUNE)


def dense(rows, shape):
    """Pads ragged token ids [B,(tokens)] to `shape`: (int32 [B,L], bool [B,L], True for tokens)."""
    ids, mask = rows.to_tensor(shape=shape), tf.sequence_mask(rows.row_lengths(), shape[1])
    return ids, tf.ensure_shape(mask, ids.shape)
