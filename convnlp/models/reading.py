"""The stack that reads a text, and rows that are no longer than it needs."""

import tensorflow as tf

from convnlp.layers import TokenMixer

ROUND_TO = 8  # tokens


def reading_mixers(backbone):
    """The token mixers of the stack that reads a text, those inside of others too."""
    layers = backbone.reading_stack._flatten_layers()
    return [layer for layer in layers if isinstance(layer, TokenMixer)]


def mixes_any_length(backbone):
    """Whether rows may be as short as the longest text of the batch, in the stack that reads a text."""
    return all(mixer.pad_length_invariant for mixer in reading_mixers(backbone))


def shortened(rows, max_length):
    """Rows without most pads that all of them have.

    The length is rounded up to a multiple of `ROUND_TO`: each new one costs once what the kernels of
    TensorFlow need to set themselves up, many times the product of a batch.

    Args:
        rows: {"token_ids" int32 [B,L], "padding_mask" bool [B,L]}.
        max_length: int. L.
    """
    longest = tf.reduce_max(tf.reduce_sum(tf.cast(rows["padding_mask"], tf.int32), axis=1))
    longest = tf.minimum(-(-longest // ROUND_TO) * ROUND_TO, max_length)
    return {name: row[:, :longest] for name, row in rows.items()}
