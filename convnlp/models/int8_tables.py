"""Stores tables of vectors in int8, for a model that is exported and never trained again."""

import numpy as np
import tensorflow as tf

from convnlp.layers import HashedNgrams
from convnlp.models.token_embedding import TokenEmbedding

MAX_INTEGER = 127  # and -127: symmetric, so that 0 stays 0


def quantize_rows(table):
    """Approximates E by s Q, with a scale per row r: s_r = max_d |E_rd| / 127 and Q_rd = E_rd / s_r, rounded.

    No value is off by more than s_r / 2, which is 1/254 of the largest in its row. A row of zeros has
    s_r = 0.

    Args:
        table: float [V,D].

    Returns:
        (int8 [V,D], float32 [V]): Q and s.

    Example:
    >>> integers, scales = quantize_rows([[0.5, -2.54], [0.0, 0.0]])
    >>> integers.tolist(), [round(float(scale), 3) for scale in scales]
    ([[25, -127], [0, 0]], [0.02, 0.0])
    """
    table = np.asarray(table, np.float32)
    scales = np.abs(table).max(axis=1) / np.float32(MAX_INTEGER)
    steps = table / np.where(scales > 0, scales, 1)[:, None]
    integers = np.clip(np.rint(steps), -MAX_INTEGER, MAX_INTEGER)
    return integers.astype(np.int8), scales


def store_in_int8(model):
    """Replaces the tables of tokens and hashed n-grams with int8 variables that have a scale per row.

    These tables are three quarters of a small model. They are looked up, not multiplied: a text needs only a
    few of their rows. Tables of positions are small and stay unchanged. Use it only on a model that is to be
    traced: Keras still takes the weights for float32.

    Args:
        model: a model of any task that does not write text, because the product with the embedding, which
            gives the logits of a text, does not support integers. It is changed in place.
    """
    for layer in model._flatten_layers():
        if isinstance(layer, TokenEmbedding):
            table = layer.embeddings
        elif isinstance(layer, HashedNgrams):
            table = layer.table
        else:
            continue
        if layer.row_scales is None:  # a layer may be shared
            integers, scales = quantize_rows(table)
            table._value = tf.Variable(integers, trainable=False, name=table.name)
            layer.row_scales = tf.Variable(scales, trainable=False, name=f"{table.name}_row_scales")
