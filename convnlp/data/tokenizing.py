"""Tokenizes documents for pre-training, each followed by its end token."""

import hashlib

import tensorflow as tf


def token_ids(texts, tokenizer):
    """Returns the tokens of documents, each followed by the end token; for use inside tf.data.

    Args:
        texts: string tensor [n].
        tokenizer: has `tokenize`, `vocabulary_size()`, `end_token_id`.

    Returns:
        RaggedTensor [n,(tokens)], uint16 if the vocabulary allows, else int32.

    Example:
    >>> texts = tf.data.Dataset.from_tensors(["", ""])
    >>> next(iter(texts.map(lambda batch: token_ids(batch, tokenizer)))).to_list()
    [[1], [1]]
    """
    tokens = tokenizer.tokenize(texts)  # ragged [n,(tokens)]
    ends = tf.fill([tf.shape(texts)[0], 1], tf.cast(tokenizer.end_token_id, tokens.dtype))
    return tf.cast(tf.concat([tokens, ends], axis=1), dtype_of(tokenizer))


def dtype_of(tokenizer):
    """Returns the tf.DType of stored ids: uint16 if the vocabulary fits, else int32."""
    return tf.uint16 if tokenizer.vocabulary_size() <= tf.uint16.max else tf.int32


def sum_of(tokenizer):
    """Returns the SHA-256 sum of a tokenizer's SentencePiece model, in hex: other models give other ids."""
    return hashlib.sha256(tokenizer.proto).hexdigest()
