"""Batches for pre-training: documents of any source, cut to rows of equal length, shuffled and corrupted."""

import tensorflow as tf

from convnlp.data import masked_lm, sources, span_corruption
from convnlp.data.errors import SourceError

OBJECTIVES = ("span_corruption", "masked_lm", "prefix_lm")


def batches(
    source,
    tokenizer,
    *,
    input_length,
    batch_size,
    seed,
    objectives=("span_corruption",),
    noise_density=span_corruption.NOISE_DENSITY,
    mean_span_length=span_corruption.MEAN_SPAN_LENGTH,
    split="train",
    field="text",
    shuffle_buffer=16384,
    num_epochs=None,
    num_shards=1,
    shard_index=0,
    data_dir=None,
    num_parallel_calls=tf.data.AUTOTUNE,
):
    """Endless batches of one or more pre-training objectives over the same rows of text.

    Documents are tokenized, ended by the end token, concatenated and cut to rows of exactly the length that
    corruption turns into `input_length`; nothing is padded. Rows of files of different sizes are mixed evenly
    (see `files`), then shuffled in a buffer. The randomness of batch n depends on (seed, n) alone: the same
    arguments give the same batches after a restart, and for any `num_parallel_calls`.

    Args:
        source: string, see `sources`.
        tokenizer: has `tokenize`, `vocabulary_size()`, `sentinel_token_ids`, `start_token_id`,
            `end_token_id`.
        input_length: int, S.
        batch_size: int, B, of this worker.
        seed: int.
        objectives: tuple of "span_corruption", "masked_lm" and "prefix_lm". Defaults to span corruption
            alone.
        noise_density: float in (0, 1). Defaults to 0.15.
        mean_span_length: float. Defaults to 3.
        split: string. Defaults to "train".
        field: string, the text's field. Defaults to "text".
        shuffle_buffer: int, rows in the buffer, 0 or 1 for no shuffling. It is part of a checkpoint, with 2
            or 4 bytes a token. Defaults to 16384.
        num_epochs: int, or None to repeat for ever. Default None.
        num_shards: int, number of workers. Default 1.
        shard_index: int, this worker. Default 0.
        data_dir: string, for TFDS.
        num_parallel_calls: int, threads that tokenize. Defaults to tf.data's choice.

    Returns:
        A tf.data.Dataset of dicts with static shapes, int32 but for the bool masks. T is the target length of
        `span_corruption.lengths`, M of `masked_lm.num_predictions`.

        - span corruption: `encoder_token_ids`, `encoder_padding_mask` [B,S], `decoder_token_ids` (the targets
          one place later, after the start token), `target_token_ids`, `decoder_padding_mask` [B,T];
        - masked LM: `masked_token_ids` [B,S], `masked_positions`, `masked_targets` [B,M];
        - prefix LM: `prefix_lm_token_ids` and `prefix_mask` [B,S]. The prefix is of any length from 1 to
          S - 1, the same for all rows and workers, which then have equally many targets.

    Raises:
        ValueError: if an argument is out of range, see also `span_corruption.counts`.
        SourceError: as `sources.read`, or if there is less text than one batch in `num_epochs`.

    Example:
    >>> _ = open("docs.txt", "w").write("The old river crosses the quiet valley." * 9)
    >>> data = batches(
    ...     "text:docs.txt", tokenizer, input_length=16, batch_size=2, seed=0, objectives=("masked_lm",))
    >>> for name, value in data.element_spec.items():
    ...     print(name, value.shape)
    masked_token_ids (2, 16)
    masked_positions (2, 2)
    masked_targets (2, 2)
    """
    unknown = set(objectives) - set(OBJECTIVES)
    if unknown or not objectives:
        raise ValueError(f"objectives must be among {OBJECTIVES}; received {tuple(objectives)}")
    raw_length = input_length
    if "span_corruption" in objectives:
        raw_length, _ = span_corruption.lengths(input_length, noise_density, mean_span_length)

    documents = sources.read_blocks(
        source, split, (field,), data_dir=data_dir, num_shards=num_shards, shard_index=shard_index, seed=seed
    )
    rows = cut_rows(documents.repeat(num_epochs), tokenizer, field, raw_length, num_parallel_calls)
    if shuffle_buffer > 1:
        # Epochs differ all the same, since they lie below; but every iterator has to give the same batches.
        rows = rows.shuffle(shuffle_buffer, seed=seed, reshuffle_each_iteration=False)
    numbered = tf.data.Dataset.zip(rows.batch(batch_size, drop_remainder=True), tf.data.Dataset.counter())

    def corrupt(tokens, number):
        tokens = tf.cast(tokens, tf.int32)
        seeds = tf.random.experimental.stateless_fold_in(tf.constant([seed, shard_index], tf.int64), number)
        seeds = tf.random.experimental.stateless_split(seeds, 2)
        batch = {}
        if "span_corruption" in objectives:
            batch |= _span_corruption(tokens, seeds[0], tokenizer, noise_density, mean_span_length)
        if "masked_lm" in objectives:
            batch |= _masked_lm(tokens[:, :input_length], seeds[1], tokenizer, noise_density)
        if "prefix_lm" in objectives:
            batch |= _prefix_lm(tokens[:, :input_length], seed, number)
        return batch

    dataset = numbered.map(corrupt, num_parallel_calls, deterministic=True).prefetch(tf.data.AUTOTUNE)
    if num_epochs is not None and next(iter(dataset), None) is None:
        raise SourceError(
            f"{source}, split {split}: not enough text for {batch_size} rows of {raw_length} tokens"
        )
    return dataset


def cut_rows(documents, tokenizer, field, length, num_parallel_calls=tf.data.AUTOTUNE):
    """Rows of `length` tokens, cut from the documents one after the other.

    Args:
        documents: tf.data.Dataset of blocks, see `sources.read_blocks`.
        tokenizer: has `tokenize`, `vocabulary_size()`, `end_token_id`.
        field: string, the text's field.
        length: int.
        num_parallel_calls: int, threads that tokenize. Defaults to tf.data's choice.

    Returns:
        A tf.data.Dataset of [length], uint16 where the vocabulary allows, else int32.
    """
    # Rows wait in the shuffle buffer and its checkpoint, where the smaller type halves them.
    dtype = tf.uint16 if tokenizer.vocabulary_size() <= tf.uint16.max else tf.int32

    def tokenize(block):
        tokens = tokenizer.tokenize(block[field])  # ragged [n,(tokens)]
        ends = tf.fill([tf.shape(block[field])[0], 1], tf.cast(tokenizer.end_token_id, tokens.dtype))
        return tf.cast(tf.concat([tokens, ends], axis=1).flat_values, dtype)

    def cut(rest, tokens):
        tokens = tf.concat([rest, tokens], axis=0)
        num_rows = tf.size(tokens) // length
        return tokens[num_rows * length :], tf.reshape(tokens[: num_rows * length], [num_rows, length])

    tokens = documents.map(tokenize, num_parallel_calls, deterministic=True)
    return tokens.scan(tf.zeros([0], dtype), cut).unbatch()


def _span_corruption(tokens, seed, tokenizer, noise_density, mean_span_length):
    inputs, targets = span_corruption.corrupt(
        tokens,
        seed,
        tokenizer.sentinel_token_ids,
        noise_density=noise_density,
        mean_span_length=mean_span_length,
        end_token_id=tokenizer.end_token_id,
    )
    start = tf.fill([tf.shape(targets)[0], 1], tokenizer.start_token_id)
    return {
        "encoder_token_ids": inputs,
        "encoder_padding_mask": tf.ones_like(inputs, tf.bool),
        "decoder_token_ids": tf.concat([start, targets[:, :-1]], axis=1),
        "decoder_padding_mask": tf.ones_like(targets, tf.bool),
        "target_token_ids": targets,
    }


def _masked_lm(tokens, seed, tokenizer, noise_density):
    sentinels = tokenizer.sentinel_token_ids
    masked, positions, targets = masked_lm.mask(
        tokens,
        seed,
        mask_token_id=sentinels[0],
        num_text_tokens=tokenizer.vocabulary_size() - len(sentinels),
        noise_density=noise_density,
        end_token_id=tokenizer.end_token_id,
    )
    return {"masked_token_ids": masked, "masked_positions": positions, "masked_targets": targets}


def _prefix_lm(tokens, seed, number):
    length = tokens.shape[1]
    seed = tf.random.experimental.stateless_fold_in(tf.constant([seed, 0], tf.int64), number)
    prefix_length = tf.random.stateless_uniform([], seed, 1, length, tf.int32)
    mask = tf.zeros_like(tokens, tf.bool) | (tf.range(length) < prefix_length)  # [B,S]
    return {"prefix_lm_token_ids": tokens, "prefix_mask": mask}
