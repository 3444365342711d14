"""Vectors looked up in a table, which an exported model may hold in int8."""

import tensorflow as tf


def gather_rows(table, row_scales, ids):
    """E[id], or s[id] Q[id] of a table of integers Q with a scale s for each row.

    The rows are made floats once they are looked up, never the table. See `convnlp.models.int8_tables`.

    Args:
        table: [V,D], floats; with scales int8.
        row_scales: float32 [V], or None.
        ids: int32 [...], each in [0, V).

    Returns:
        [...,D], float32 with scales, else of the table's type.
    """
    rows = tf.gather(tf.convert_to_tensor(table), ids)
    if row_scales is None:
        return rows
    return tf.cast(rows, tf.float32) * tf.expand_dims(tf.gather(row_scales, ids), -1)
