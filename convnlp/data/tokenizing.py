"""The token ids of documents, each with its end token, as pre-training reads them."""

import hashlib

import tensorflow as tf


def token_ids(texts, tokenizer):
    """The tokens of documents, each ended by the end token, in a graph of tf.data.

    Args:
        texts: string tensor [n].
        tokenizer: has `tokenize`, `vocabulary_size()`, `end_token_id`.

    Returns:
        RaggedTensor [n,(tokens)], uint16 where the vocabulary allows, else int32.

    Example:
    >>> texts = tf.data.Dataset.from_tensors(["", ""])
    >>> next(iter(texts.map(lambda batch: token_ids(batch, tokenizer)))).to_list()
    [[1], [1]]
    """
    tokens = tokenizer.tokenize(texts)  # ragged [n,(tokens)]
    ends = tf.fill([tf.shape(texts)[0], 1], tf.cast(tokenizer.end_token_id, tokens.dtype))
    return tf.cast(tf.concat([tokens, ends], axis=1), dtype_of(tokenizer))


def dtype_of(tokenizer):
    """The type of stored ids: the smallest that holds the vocabulary."""
    return tf.uint16 if tokenizer.vocabulary_size() <= tf.uint16.max else tf.int32


def sum_of(tokenizer):
    """The SHA-256 sum of a tokenizer's SentencePiece model: other models make other ids of a text."""
    return hashlib.sha256(tokenizer.proto).hexdigest()
