"""The stack that reads a text, and rows no longer than it needs."""

import tensorflow as tf

from convnlp.layers import TokenMixer

ROUND_TO = 8  # tokens


def reading_mixers(backbone):
    """Returns the token mixers of the stack that reads a text, including those nested in others."""
    layers = backbone.reading_stack._flatten_layers()
    return [layer for layer in layers if isinstance(layer, TokenMixer)]


def mixes_any_length(backbone):
    """Whether the stack that reads a text accepts rows as short as the longest text of a batch."""
    return all(mixer.pad_length_invariant for mixer in reading_mixers(backbone))


def shortened(rows, max_length):
    """Returns rows without most of the pads that all of them share.

    The length is rounded up to a multiple of `ROUND_TO`: for each new length, TensorFlow's kernels set
    themselves up once, which takes many times as long as the product of a batch.

    Args:
        rows: {"token_ids" int32 [B,L], "padding_mask" bool [B,L]}.
        max_length: int. L.
    """
    longest = tf.reduce_max(tf.reduce_sum(tf.cast(rows["padding_mask"], tf.int32), axis=1))
    longest = tf.maximum(longest, 1)  # without a row: attention has no scores for no position
    longest = tf.minimum(-(-longest // ROUND_TO) * ROUND_TO, max_length)
    return {name: row[:, :longest] for name, row in rows.items()}
