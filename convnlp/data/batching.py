"""Batches of examples held in memory: which examples each has, and rows padded to one length.

The order is computed from the number of a batch, so that nothing need be kept of it in a checkpoint.
"""

import tensorflow as tf

from convnlp.data import rules
from convnlp.data.source import ALL

# How many groups of batches are cut from a pool of examples sorted by length: as many as make an epoch, but
# within these bounds. With more groups there are fewer pads, but in a pool of many epochs, equal texts meet.
MIN_POOLED_GROUPS, MAX_POOLED_GROUPS = 10, 30
NUM_BUCKETS = 8  # different lengths of batches; the fast kernels are compiled for each
_SEED_KEY = 498247692  # any number with many bits: a key of zeros hardly mixes the permutations


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
        # two epochs needs. With its 4 rounds, neighbours stay neighbours twice too often.
        shuffled = tf.raw_ops.RandomIndexShuffle(
            index=index, seed=tf.cast(seeds, tf.int32), max_index=tf.constant(count - 1, tf.int64), rounds=8
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

    In training, the examples of an epoch, but of at least `MIN_POOLED_GROUPS` and at most `MAX_POOLED_GROUPS`
    groups, are sorted by length and cut into these groups; the order of the groups is random, and so is the
    order within each group. In evaluation, all examples are sorted.

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

    in_epoch = len(lengths) // (group * global_batch_size)
    num_groups = min(max(in_epoch, MIN_POOLED_GROUPS), MAX_POOLED_GROUPS)

    @tf.autograph.experimental.do_not_convert
    def pool(number, taken):
        indices, weights = taken
        indices = tf.gather(indices, tf.argsort(tf.gather(lengths, indices), stable=True))
        groups = tf.reshape(indices, [num_groups, group * global_batch_size])
        key = tf.stack([tf.constant(seed, tf.int64), number])
        groups = tf.random.experimental.stateless_shuffle(groups, key)
        # Shuffling within groups, all by the same permutation, makes each batch a random part of its group.
        mixed = tf.transpose(tf.random.experimental.stateless_shuffle(tf.transpose(groups), key))
        shape = [num_groups, group, global_batch_size]
        return own(tf.reshape(mixed, shape), tf.reshape(weights, shape))

    pools = order(len(lengths), num_groups * group * global_batch_size, training=True, seed=seed).enumerate()
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
    >>> from convnlp.data.examples import Rows, load
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
