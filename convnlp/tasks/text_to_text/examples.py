"""The examples of text to text, an input and a target each, and their batches."""

import dataclasses

import tensorflow as tf

from convnlp.data import Label, batching, examples, packing


def read_text_to_text(
    source,
    tokenizer,
    *,
    input_length,
    target_length,
    input_field="inputs",
    target_field="targets",
    label_names=None,
    label_threshold=None,
    keep_texts=False,
):
    """Reads input and target texts, for an encoder and a decoder.

    Args:
        source: `Source`.
        tokenizer: has `tokenize` and `end_token_id`.
        input_length: int, S, with the end token.
        target_length: int, T, with the end token. Longer texts are cut, and their number is logged.
        input_field: string, or a tuple of two for a pair of texts, each followed by the end token.
        target_field: string, a text, or a list of texts, of which the first is the target; or a class, if
            there are `label_names`.
        label_names: sequence of strings; the target is the name of the class in `target_field`. Default None.
        label_threshold: float, see `convnlp.data.Label`. Default None.
        keep_texts: bool, whether to keep the texts, for scores. Default False.

    Returns:
        `examples.Examples` with two columns, inputs and targets, and the texts of both fields.

    Raises:
        SourceError: if the source or any of its examples is wrong.
        ValueError: if the lengths leave no room for the texts, or for the names of the classes, or if two of
            these have the same tokens.

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
        rows.append(examples.Rows((target_field,), target_length, "data.target_length", several=True))
        return examples.load(source, tokenizer, rows, keep_texts=keep_texts)
    names = _label_rows(tokenizer, label_names, target_length)
    label = Label(target_field, names=tuple(label_names), threshold=label_threshold)
    found = examples.load(source, tokenizer, rows, label=label, keep_texts=keep_texts)
    texts = {target_field: [label.names[index] for index in found.labels]} if keep_texts else {}
    return dataclasses.replace(
        found,
        columns=(*found.columns, tf.gather(names, found.labels)),
        lengths=(input_length, target_length),
        texts=found.texts | texts,
    )


def text_to_text_batches(found, batch_size, *, start_token_id, training, pack=False, **order):
    """Makes batches of an input and a target text, for an encoder and a decoder.

    Args:
        found: `examples.Examples` from `read_text_to_text`.
        batch_size: int, B, of this worker.
        start_token_id: int, the token before the target in the decoder's input.
        training: bool, see `batching.labelled_batches`.
        pack: bool, in training only: puts several examples into each row, told apart by segment ids. Default
            False.
        **order: `seed`, `num_epochs` and `shard` of `batching.order`.

    Returns:
        A tf.data.Dataset of dicts: `encoder_token_ids` int32 [B,S], `decoder_token_ids` (the target one place
        later, after the start token), `target_token_ids` int32 [B,T], `encoder_padding_mask` bool [B,S] and
        `decoder_padding_mask` bool [B,T], which is False in rows that only fill up an evaluation. Packed rows
        also have int32 `encoder_segment_ids` [B,S] and `decoder_segment_ids` [B,T], from 1; 0 for padding.
        Unpacked, its cardinality is the number of batches.

    Raises:
        ValueError: if `pack` is set in an evaluation, and as for `batching.order`.

    Example:
    >>> _ = open("rows.jsonl", "w").write(json.dumps({"inputs": "The old river.", "targets": "river"}))
    >>> found = read_text_to_text(Source("jsonl:rows.jsonl"), tokenizer, input_length=12, target_length=4)
    >>> for batch in text_to_text_batches(found, 1, start_token_id=0, training=False):
    ...     print(tokenizer.detokenize(batch["target_token_ids"]), batch["decoder_padding_mask"].numpy())
    ['river'] [[ True  True False False]]
    """
    if pack and not training:
        raise ValueError(
            "`pack` must be False in evaluation, where every example has its row. Received: pack=True"
        )
    (inputs, targets), (input_length, target_length) = found.columns, found.lengths
    numbered = batching.order(len(found), batch_size, training=training, **order)
    start = tf.constant([[start_token_id]])

    def take(indices):
        target = tf.gather(targets, indices)
        shifted = tf.concat([tf.repeat(start, indices.shape[0], axis=0), target[:, :-1]], axis=1)
        return tf.gather(inputs, indices), shifted, target

    @tf.autograph.experimental.do_not_convert
    def batch(indices, weights):
        encoder, decoder, target = take(indices)
        encoder_token_ids, encoder_padding_mask = batching.dense(encoder, [batch_size, input_length])
        decoder_token_ids, decoder_padding_mask = batching.dense(decoder, [batch_size, target_length])
        return {
            "encoder_token_ids": encoder_token_ids,
            "encoder_padding_mask": encoder_padding_mask,
            "decoder_token_ids": decoder_token_ids,
            "decoder_padding_mask": decoder_padding_mask & (weights > 0)[:, tf.newaxis],
            "target_token_ids": batching.dense(target, [batch_size, target_length])[0],
        }

    names = {
        "encoder_token_ids": input_length,
        "decoder_token_ids": target_length,
        "target_token_ids": target_length,
    }

    @tf.autograph.experimental.do_not_convert
    def columns(indices, _):
        return dict(zip(names, take(indices), strict=True))

    @tf.autograph.experimental.do_not_convert
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
    return packing.pack(numbered.map(columns), names, batch_size).map(packed).prefetch(tf.data.AUTOTUNE)


def _label_rows(tokenizer, names, length):
    """Returns the target of each class; raises ValueError if one is cut, or if two are the same."""
    tokenize = tf.function(
        lambda texts: examples.concatenate([tokenizer.tokenize(texts)], length, tokenizer.end_token_id),
        autograph=False,
    )
    rows, num_cut = tokenize(tf.constant(list(names)))
    if num_cut:
        raise ValueError(
            "`data.target_length` must hold the name of every class, "
            f"of {list(names)}. Received: data.target_length={length}"
        )
    seen = {}
    for name, row in zip(names, rows.to_list(), strict=True):
        if (other := seen.setdefault(tuple(row), name)) != name:
            raise ValueError(
                "`task.label_names` must be names that the tokenizer tells apart. "
                f"Received: {other!r} and {name!r}, which have the same tokens"
            )
    return rows
