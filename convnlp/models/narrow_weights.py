"""Stores weights in bfloat16, for a model that is exported and never trained again."""

import tensorflow as tf

from convnlp.layers.conv_mixer import FullConvMixer
from convnlp.layers.projection import Projection
from convnlp.models.token_embedding import TokenEmbedding


def store_in_bfloat16(model):
    """Replaces the embedding and the kernels of all projections with bfloat16 variables.

    `convnlp.kernels.project` multiplies with such kernels in bfloat16. Everything else stays float32,
    including the head's product, products over positions and those of two activations. Use it only on a model
    that is to be traced: Keras still takes the weights for float32.

    Args:
        model: a model of any task. It is changed in place.
    """
    for layer in model._flatten_layers():
        if isinstance(layer, TokenEmbedding) and layer.row_scales is None:  # else it is narrower already
            kept = layer.embeddings
        elif isinstance(layer, (Projection, FullConvMixer)):
            kept = layer.kernel
        else:
            continue
        if kept._value.dtype != tf.bfloat16:  # a layer may be shared
            kept._value = tf.Variable(tf.cast(kept._value, tf.bfloat16), trainable=False, name=kept.name)
