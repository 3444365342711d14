"""Batches for pre-training: documents of any source, cut into rows of equal length, shuffled, made examples.

A source of text is read, tokenized and cut from its beginning, and shuffled in a buffer, which is part of the
checkpoint. For a token cache, the number of the next batch is the whole state: it determines the rows.
"""

import math

import numpy as np
import tensorflow as tf

from convnlp.data import rules, sources
from convnlp.data.errors import SourceError
from convnlp.data.source import ALL
from convnlp.data.token_cache import Rows, TokenCache
from convnlp.data.tokenizing import token_ids

# About 240,000 tokens: counted in a fraction of a second, and representative to within a few percent.
_COUNTED_BLOCKS = 8


def batches(
    source,
    tokenizer,
    *,
    row_length,
    examples,
    batch_size,
    seed,
    field="text",
    shuffle_buffer=16384,
    num_epochs=None,
    skip_tokens=0,
    shard=ALL,
    num_parallel_calls=tf.data.AUTOTUNE,
):
    """Returns batches of examples that are made from rows of text.

    Documents are tokenized, ended by the end token, concatenated and cut into rows of equal length; nothing
    is padded. Rows of files of different sizes are mixed evenly, up to 64 files at a time, which are spread
    over all of them (see `files.groups`), then shuffled in a buffer; those of a source `tokens:DIR` are
    shuffled globally, by arithmetic (see `token_cache.Rows`). The randomness of batch n depends only on
    (seed, n): the same arguments give the same batches after a restart, and for any `num_parallel_calls`.

    Args:
        source: `Source`.
        tokenizer: has `tokenize`, `vocabulary_size()`, `end_token_id`.
        row_length: int, R.
        examples: function (tokens int32 [B,R], seed, shared_seed) -> dict of tensors [B,...], run in the
            graph. Both seeds are int64 [2] and differ between batches; the first also differs between
            workers. `convnlp.objectives.pretraining_batches` provides one.
        batch_size: int, B, of this worker.
        seed: int.
        field: string, the text's field. Defaults to "text".
        shuffle_buffer: int, rows in the buffer; 0 or 1 for no shuffling. A checkpoint holds the buffer, with
            2 or 4 bytes per token. Defaults to 16384. For `tokens:`, 0 and 1 select a fixed order, spread
            over the whole text, for all seeds and epochs; any other number selects the global shuffle.
        num_epochs: int, or None to repeat forever. Default None.
        skip_tokens: int, tokens of this worker's text to skip at the beginning because an earlier data set
            has read them; rounded up to whole blocks, see `blocks_of`. Defaults to 0. For `tokens:`, nothing
            is skipped: the order starts from the seed's beginning.
        shard: `Shard`, the part of this worker. Defaults to all.
        num_parallel_calls: int, threads that tokenize. Defaults to tf.data's choice.

    Returns:
        A tf.data.Dataset of what `examples` returns; endless if `num_epochs` is None.

    Raises:
        ValueError: if a number is out of range.
        SourceError: as `sources.read`, or if `num_epochs` of the text do not fill a batch, or if the token
            cache was made with another tokenizer.

    Example:
    >>> _ = open("docs.txt", "w").write("The old river crosses the quiet valley." * 9)
    >>> data = batches(Source("text:docs.txt"), tokenizer, row_length=16, batch_size=2, seed=0,
    ...                examples=lambda tokens, seed, shared_seed: {"token_ids": tokens})
    >>> data.element_spec
    {'token_ids': TensorSpec(shape=(2, 16), dtype=tf.int32, name=None)}
    """
    rules.integer(1).check("row_length", row_length)
    rules.integer(1).check("batch_size", batch_size)
    rules.integer(0).check("shuffle_buffer", shuffle_buffer)
    rules.integer(0, below=2**63).check("skip_tokens", skip_tokens)
    if source.kind == "tokens":
        cache = TokenCache(source)
        cache.check_tokenizer(tokenizer)
        rows = Rows(cache, row_length, seed if shuffle_buffer > 1 else None, shard)
        numbered = _numbered_batches(rows, row_length, batch_size, num_epochs)
    else:
        documents = sources.read_blocks(source, (field,), shard=shard, seed=seed)
        repeated = documents.repeat(num_epochs)
        if skip_tokens:
            repeated = repeated.skip(blocks_of(documents, tokenizer, field, skip_tokens))
        rows = cut_rows(repeated, tokenizer, field, row_length, num_parallel_calls)
        if shuffle_buffer > 1:
            # Epochs still differ, since they repeat before this, but all iterators give the same batches.
            rows = rows.shuffle(shuffle_buffer, seed=seed, reshuffle_each_iteration=False)
        numbered = tf.data.Dataset.zip(rows.batch(batch_size, drop_remainder=True), tf.data.Dataset.counter())

    def make(tokens, number):
        own, shared = (
            tf.random.experimental.stateless_fold_in(tf.constant([seed, index], tf.int64), number)
            for index in (shard.index, 0)
        )
        return examples(tf.cast(tokens, tf.int32), own, shared)

    dataset = numbered.map(make, num_parallel_calls, deterministic=True).prefetch(tf.data.AUTOTUNE)
    if num_epochs is not None and next(iter(dataset), None) is None:
        raise SourceError(f"{source}: not enough text for {batch_size} rows of {row_length} tokens")
    return dataset


def _numbered_batches(rows, row_length, batch_size, num_epochs):
    """Returns a data set of (tokens [B,R], number); a checkpoint of its iterator holds the next number."""

    def read(number):
        return rows.at(np.arange(number * batch_size, (number + 1) * batch_size))

    @tf.autograph.experimental.do_not_convert
    def batch(number):
        tokens = tf.numpy_function(read, [number], tf.int32, stateful=False)
        return tf.ensure_shape(tokens, [batch_size, row_length]), number

    options = tf.data.Options()
    # Rows prefetched before a checkpoint are made again after it, so the checkpoint need not hold any.
    options.experimental_symbolic_checkpoint = True
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    numbers = tf.data.Dataset.counter(dtype=tf.int64)
    if num_epochs is not None:
        numbers = numbers.take(rows.count(num_epochs) // batch_size)
    return numbers.map(batch).with_options(options)


def blocks_of(documents, tokenizer, field, num_tokens):
    """Estimates from the first few blocks how many blocks of documents hold `num_tokens` tokens.

    Args:
        documents: tf.data.Dataset of blocks, see `sources.read_blocks`.
        tokenizer: has `tokenize`, `vocabulary_size()`, `end_token_id`.
        field: string, the text's field.
        num_tokens: int.

    Returns:
        int, rounded up.
    """
    blocks = _tokens(documents.take(_COUNTED_BLOCKS), tokenizer, field)
    counts = [int(count) for count in blocks.map(tf.size)]
    return math.ceil(num_tokens * len(counts) / max(sum(counts), 1))


def cut_rows(documents, tokenizer, field, length, num_parallel_calls=tf.data.AUTOTUNE):
    """Concatenates documents and cuts them into rows of `length` tokens.

    Args:
        documents: tf.data.Dataset of blocks, see `sources.read_blocks`.
        tokenizer: has `tokenize`, `vocabulary_size()`, `end_token_id`.
        field: string, the text's field.
        length: int.
        num_parallel_calls: int, threads that tokenize. Defaults to tf.data's choice.

    Returns:
        A tf.data.Dataset of [length], uint16 if the vocabulary allows, else int32.
    """

    @tf.autograph.experimental.do_not_convert
    def cut(rest, tokens):
        tokens = tf.concat([rest, tokens], axis=0)
        num_rows = tf.size(tokens) // length
        return tokens[num_rows * length :], tf.reshape(tokens[: num_rows * length], [num_rows, length])

    tokens = _tokens(documents, tokenizer, field, num_parallel_calls)
    return tokens.scan(tf.zeros([0], tokens.element_spec.dtype), cut).unbatch()


def _tokens(documents, tokenizer, field, num_parallel_calls=tf.data.AUTOTUNE):
    """Returns a data set of the tokens of each block, [n], with an end token after each document."""

    @tf.autograph.experimental.do_not_convert
    def tokenize(block):  # into the smallest type: the shuffle buffer and its checkpoint hold rows
        return token_ids(block[field], tokenizer).flat_values

    return documents.map(tokenize, num_parallel_calls, deterministic=True)
