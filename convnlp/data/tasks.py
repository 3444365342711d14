"""Labelled examples and their batches, for fine-tuning and evaluation: classification, and text to text.

Reading (`read_*`) opens a source and checks all of its rows; batches (`*_batches`) are made of what was read,
as often as they are wanted.
"""

import dataclasses

import tensorflow as tf

from convnlp.data import examples, packing
from convnlp.data.schema import Label


def read_classification(source, tokenizer, label, sequence_length, text_fields=("text",)):
    """Reads texts, or pairs of texts, with a class.

    Args:
        source: `Source`.
        tokenizer: has `tokenize` and `end_token_id`.
        label: `Label`.
        sequence_length: int, L. A text is followed by the end token, so is each text of a pair; the longer
            text is cut where they do not fit, and the number of those examples is logged.
        text_fields: tuple of one or two strings. Defaults to `("text",)`.

    Returns:
        `examples.Examples` with one column.

    Raises:
        SourceError: if the source or any of its examples is wrong.
        ValueError: if `sequence_length` has no place for a token of each text.

    Example:
    >>> _ = open("days.jsonl", "w").write(json.dumps({"text": "A fine day.", "label": 1}))
    >>> found = read_classification(Source("jsonl:days.jsonl"), tokenizer, Label(num_classes=2), 8)
    >>> len(found), found.labels
    (1, array([1]))
    """
    rows = [examples.Rows(tuple(text_fields), sequence_length)]
    return examples.load(source, tokenizer, rows, label=label)


def classification_batches(found, batch_size, *, training, **order):
    r"""Batches of one text or a pair of texts with a class.

    Args:
        found: `examples.Examples` of `read_classification`.
        batch_size: int, B, of this worker.
        training: bool. True: shuffled, for `num_epochs`, full batches. False: all examples once, in order;
            the last batch is filled up with examples of weight 0.
        **order: `seed`, `num_epochs` and `shard` of `examples.order`.

    Returns:
        A tf.data.Dataset of dicts: `token_ids` int32 [B,L], `padding_mask` bool [B,L], `label` int32 [B],
        `weight` float32 [B]. Its cardinality is the number of batches.

    Raises:
        ValueError: as `examples.order`.

    Example:
    >>> rows = [{"text": "A fine day.", "label": 1}, {"text": "A lost day.", "label": 0}]
    >>> _ = open("days.jsonl", "w").write("\n".join(map(json.dumps, rows)))
    >>> found = read_classification(Source("jsonl:days.jsonl"), tokenizer, Label(num_classes=2), 8)
    >>> for batch in classification_batches(found, batch_size=4, training=False):
    ...     print(batch["label"].numpy(), batch["weight"].numpy())
    [1 0 1 0] [1. 1. 0. 0.]
    """
    (ids,), (length,) = found.columns, found.lengths
    labels = tf.constant(found.labels, tf.int32)

    def batch(indices, weights):
        token_ids, padding_mask = _dense(tf.gather(ids, indices), [batch_size, length])
        return {
            "token_ids": token_ids,
            "padding_mask": padding_mask,
            "label": tf.gather(labels, indices),
            "weight": weights,
        }

    batches = examples.order(len(found), batch_size, training=training, **order)
    return batches.map(batch).prefetch(tf.data.AUTOTUNE)


def read_text_to_text(
    source,
    tokenizer,
    *,
    input_length,
    target_length,
    input_field="inputs",
    target_field="targets",
    label_names=None,
    keep_texts=False,
):
    """Reads input and target texts, for an encoder and a decoder.

    Args:
        source: `Source`.
        tokenizer: has `tokenize` and `end_token_id`.
        input_length: int, S, with the end token.
        target_length: int, T, with the end token. Longer texts are cut, and their number is logged.
        input_field: string, or a tuple of two for a pair of texts, each followed by the end token.
        target_field: string, a text; or a class, where there are `label_names`.
        label_names: sequence of strings: the target is the name of the class in `target_field`. Default None.
        keep_texts: bool, whether the texts are kept, for scores. Default False.

    Returns:
        `examples.Examples` with two columns, inputs and targets, and the texts of both fields.

    Raises:
        SourceError: if the source or any of its examples is wrong.
        ValueError: if the lengths leave no place for the texts, or for the names of the classes.

    Example:
    >>> _ = open("rows.jsonl", "w").write(json.dumps({"inputs": "The old river.", "targets": "river"}))
    >>> found = read_text_to_text(
    ...     Source("jsonl:rows.jsonl"), tokenizer, input_length=12, target_length=4, keep_texts=True)
    >>> found.texts["targets"]
    ['river']
    """
    fields = (input_field,) if isinstance(input_field, str) else tuple(input_field)
    rows = [examples.Rows(fields, input_length)]
    if not label_names:
        rows.append(examples.Rows((target_field,), target_length))
        return examples.load(source, tokenizer, rows, keep_texts=keep_texts)
    names = _label_rows(tokenizer, label_names, target_length)
    label = Label(target_field, names=tuple(label_names))
    found = examples.load(source, tokenizer, rows, label=label, keep_texts=keep_texts)
    texts = {target_field: [label.names[index] for index in found.labels]} if keep_texts else {}
    return dataclasses.replace(
        found,
        columns=(*found.columns, tf.gather(names, found.labels)),
        lengths=(input_length, target_length),
        texts=found.texts | texts,
    )


def text_to_text_batches(found, batch_size, *, start_token_id, training, pack=False, **order):
    """Batches of an input and a target text, for an encoder and a decoder.

    Args:
        found: `examples.Examples` of `read_text_to_text`.
        batch_size: int, B, of this worker.
        start_token_id: int, what stands in front of the target in the decoder's input.
        training: bool, see `classification_batches`.
        pack: bool, in training only: puts several examples into each row, told apart by segment ids. Default
            False.
        **order: `seed`, `num_epochs` and `shard` of `examples.order`.

    Returns:
        A tf.data.Dataset of dicts: `encoder_token_ids` int32 [B,S], `decoder_token_ids` (the target one place
        later, after the start token), `target_token_ids` int32 [B,T], `encoder_padding_mask` bool [B,S] and
        `decoder_padding_mask` bool [B,T], which is False in rows that only fill up an evaluation. Packed rows
        have int32 `encoder_segment_ids` [B,S] and `decoder_segment_ids` [B,T] too, from 1, 0 for padding.
        Unpacked, its cardinality is the number of batches.

    Raises:
        ValueError: if `pack` is asked for in an evaluation, and as `examples.order`.

    Example:
    >>> _ = open("rows.jsonl", "w").write(json.dumps({"inputs": "The old river.", "targets": "river"}))
    >>> found = read_text_to_text(Source("jsonl:rows.jsonl"), tokenizer, input_length=12, target_length=4)
    >>> for batch in text_to_text_batches(found, 1, start_token_id=0, training=False):
    ...     print(tokenizer.detokenize(batch["target_token_ids"]), batch["decoder_padding_mask"].numpy())
    ['river'] [[ True  True False False]]
    """
    if pack and not training:
        raise ValueError("pack must be False in evaluation, where every example has its row; received True")
    (inputs, targets), (input_length, target_length) = found.columns, found.lengths
    numbered = examples.order(len(found), batch_size, training=training, **order)
    start = tf.constant([[start_token_id]])

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
        return numbered.map(batch).prefetch(tf.data.AUTOTUNE)
    names = {
        "encoder_token_ids": input_length,
        "decoder_token_ids": target_length,
        "target_token_ids": target_length,
    }
    columns = numbered.map(lambda indices, _: dict(zip(names, take(indices), strict=True)))
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
