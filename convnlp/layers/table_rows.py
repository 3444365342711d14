"""Looks up rows of a table, which an exported model may store in int8."""

import tensorflow as tf


def gather_rows(table, row_scales, ids):
    """Returns E[id], or s[id] Q[id] for a table of integers Q with a scale s per row.

    Only the rows that are looked up become floats, never the whole table. See `convnlp.models.int8_tables`.

    Args:
        table: tensor [V,D], float, or int8 with scales.
        row_scales: float32 tensor [V], or None.
        ids: int32 tensor [...], each in [0, V).

    Returns:
        Tensor [...,D], float32 with scales, else of the table's dtype.
    """
    rows = tf.gather(tf.convert_to_tensor(table), ids)
    if row_scales is None:
        return rows
    return tf.cast(rows, tf.float32) * tf.expand_dims(tf.gather(row_scales, ids), -1)
