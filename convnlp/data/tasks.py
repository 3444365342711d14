"""Batches of labelled examples for fine-tuning and evaluation: classification, and text to text."""

import tensorflow as tf

from convnlp.data import examples, packing
from convnlp.data.schema import Label


def classification_batches(
    source,
    tokenizer,
    *,
    sequence_length,
    batch_size,
    training,
    split="train",
    text_fields=("text",),
    label_field="label",
    label_names=None,
    num_classes=None,
    label_threshold=None,
    seed=0,
    num_epochs=None,
    num_shards=1,
    shard_index=0,
    data_dir=None,
):
    r"""Batches of one text or a pair of texts with a class.

    Args:
        source: string, see `sources`.
        tokenizer: has `tokenize` and `end_token_id`.
        sequence_length: int, L. A text is followed by the end token, so is each text of a pair; the longer
            text is cut where they do not fit, and the number of those examples is logged.
        batch_size: int, B, of this worker.
        training: bool. True: shuffled, for `num_epochs`, full batches. False: all examples once, in order;
            the last batch is filled up with examples of weight 0.
        split: string. Defaults to "train".
        text_fields: tuple of one or two strings. Defaults to `("text",)`.
        label_field: string. Defaults to "label".
        label_names: sequence of strings, the classes, where labels are strings (see `sources.label_names`).
        num_classes: int, where labels are integers.
        label_threshold: float, where labels are fractions; see `Label`.
        seed: int, of the order in training. Default 0.
        num_epochs: float, None for endless training. Default None.
        num_shards: int, number of workers. Default 1.
        shard_index: int, this worker. Default 0.
        data_dir: string, for TFDS.

    Returns:
        A tf.data.Dataset of dicts: `token_ids` int32 [B,L], `padding_mask` bool [B,L], `label` int32 [B],
        `weight` float32 [B]. Its cardinality is the number of batches.

    Raises:
        SourceError: if the source or any of its examples is wrong.
        ValueError: if the arguments do not fit together.

    Example:
    >>> rows = [{"text": "A fine day.", "label": 1}, {"text": "A lost day.", "label": 0}]
    >>> _ = open("days.jsonl", "w").write("\n".join(map(json.dumps, rows)))
    >>> data = classification_batches(
    ...     "jsonl:days.jsonl", tokenizer, sequence_length=8, batch_size=4, num_classes=2, training=False)
    >>> for batch in data:
    ...     print(batch["label"].numpy(), batch["weight"].numpy())
    [1 0 1 0] [1. 1. 0. 0.]
    """
    names = tuple(label_names) if label_names else None
    label = Label(label_field, num_classes, names, label_threshold)
    rows = [examples.Rows(tuple(text_fields), sequence_length)]
    (ids,), labels = examples.load(source, tokenizer, rows, label=label, split=split, data_dir=data_dir)
    labels = tf.constant(labels, tf.int32)

    def batch(indices, weights):
        token_ids, padding_mask = _dense(tf.gather(ids, indices), [batch_size, sequence_length])
        return {
            "token_ids": token_ids,
            "padding_mask": padding_mask,
            "label": tf.gather(labels, indices),
            "weight": weights,
        }

    order = examples.order(
        len(labels),
        batch_size,
        training=training,
        seed=seed,
        num_epochs=num_epochs,
        num_shards=num_shards,
        shard_index=shard_index,
    )
    return order.map(batch).prefetch(tf.data.AUTOTUNE)


def text_to_text_batches(
    source,
    tokenizer,
    *,
    input_length,
    target_length,
    batch_size,
    training,
    split="train",
    input_field="inputs",
    target_field="targets",
    label_names=None,
    pack=False,
    seed=0,
    num_epochs=None,
    num_shards=1,
    shard_index=0,
    data_dir=None,
):
    """Batches of an input and a target text, for an encoder and a decoder.

    Args:
        source: string, see `sources`.
        tokenizer: has `tokenize`, `start_token_id` and `end_token_id`.
        input_length: int, S, with the end token.
        target_length: int, T, with the end token. Longer texts are cut, and their number is logged.
        batch_size: int, B, of this worker.
        training: bool, see `classification_batches`.
        split: string. Defaults to "train".
        input_field: string, or a tuple of two for a pair of texts, each followed by the end token.
        target_field: string, a text; or a class, where there are `label_names`.
        label_names: sequence of strings: the target is the name of the class in `target_field`. Default None.
        pack: bool, in training only: puts several examples into each row, told apart by segment ids. Default
            False.
        seed: int. Default 0.
        num_epochs: float, None for endless training. Default None.
        num_shards: int. Default 1.
        shard_index: int. Default 0.
        data_dir: string, for TFDS.

    Returns:
        A tf.data.Dataset of dicts: `encoder_token_ids` int32 [B,S], `decoder_token_ids` (the target one place
        later, after the start token), `target_token_ids` int32 [B,T], `encoder_padding_mask` bool [B,S] and
        `decoder_padding_mask` bool [B,T], which is False in rows that only fill up an evaluation. Packed rows
        have int32 `encoder_segment_ids` [B,S] and `decoder_segment_ids` [B,T] too, from 1, 0 for padding.
        Unpacked, its cardinality is the number of batches.

    Raises:
        SourceError: if the source or any of its examples is wrong.
        ValueError: if the arguments do not fit together.

    Example:
    >>> row = {"inputs": "The old river.", "targets": "river"}
    >>> _ = open("rows.jsonl", "w").write(json.dumps(row))
    >>> data = text_to_text_batches(
    ...     "jsonl:rows.jsonl", tokenizer, input_length=12, target_length=4, batch_size=1, training=False)
    >>> for batch in data:
    ...     print(tokenizer.detokenize(batch["target_token_ids"]), batch["decoder_padding_mask"].numpy())
    ['river'] [[ True  True False False]]
    """
    if pack and not training:
        raise ValueError("pack must be False in evaluation, where every example has its row; received True")
    fields = (input_field,) if isinstance(input_field, str) else tuple(input_field)
    rows = [examples.Rows(fields, input_length)]
    if label_names:
        label = Label(target_field, names=tuple(label_names))
        (inputs,), labels = examples.load(
            source, tokenizer, rows, label=label, split=split, data_dir=data_dir
        )
        targets = tf.gather(_label_rows(tokenizer, label_names, target_length), labels)
    else:
        rows.append(examples.Rows((target_field,), target_length))
        (inputs, targets), _ = examples.load(source, tokenizer, rows, split=split, data_dir=data_dir)

    order = examples.order(
        int(inputs.nrows()),
        batch_size,
        training=training,
        seed=seed,
        num_epochs=num_epochs,
        num_shards=num_shards,
        shard_index=shard_index,
    )
    start = tf.constant([[tokenizer.start_token_id]])

    def take(indices):
        target = tf.gather(targets, indices)
        shifted = tf.concat([tf.repeat(start, len(indices), axis=0), target[:, :-1]], axis=1)
        return tf.gather(inputs, indices), shifted, target

    def batch(indices, weights):
        encoder, decoder, target = take(indices)
        encoder_token_ids, encoder_padding_mask = _dense(encoder, [batch_size, input_length])
        decoder_token_ids, decoder_padding_mask = _dense(decoder, [batch_size, target_length])
        return {
            "encoder_token_ids": encoder_token_ids,
            "encoder_padding_mask": encoder_padding_mask,
            "decoder_token_ids": decoder_token_ids,
            "decoder_padding_mask": decoder_padding_mask & (weights > 0)[:, tf.newaxis],
            "target_token_ids": _dense(target, [batch_size, target_length])[0],
        }

    def packed(rows):
        encoder, decoder = rows["encoder_token_ids"], rows["decoder_token_ids"]
        return {
            "encoder_token_ids": encoder.token_ids,
            "encoder_padding_mask": encoder.segment_ids > 0,
            "encoder_segment_ids": encoder.segment_ids,
            "decoder_token_ids": decoder.token_ids,
            "decoder_padding_mask": decoder.segment_ids > 0,
            "decoder_segment_ids": decoder.segment_ids,
            "target_token_ids": rows["target_token_ids"].token_ids,
        }

    if not pack:
        return order.map(batch).prefetch(tf.data.AUTOTUNE)
    names = {
        "encoder_token_ids": input_length,
        "decoder_token_ids": target_length,
        "target_token_ids": target_length,
    }
    columns = order.map(lambda indices, _: dict(zip(names, take(indices), strict=True)))
    return packing.pack(columns, names, batch_size).map(packed).prefetch(tf.data.AUTOTUNE)


def _dense(rows, shape):
    """Rows of the length in `shape`, filled up with pads, and the mask of what is not."""
    mask = tf.sequence_mask(rows.row_lengths(), shape[1])
    return rows.to_tensor(shape=shape), tf.ensure_shape(mask, shape)


def _label_rows(tokenizer, names, length):
    """The target of each class; a name that is cut could be taken for another."""
    tokenize = tf.function(
        lambda texts: examples.concatenate([tokenizer.tokenize(texts)], length, tokenizer.end_token_id)
    )
    rows, num_cut = tokenize(tf.constant(list(names)))
    if num_cut:
        raise ValueError(
            f"target_length must hold the name of every class; received {length} for {list(names)}"
        )
    return rows
