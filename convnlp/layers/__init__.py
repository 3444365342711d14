"""Keras layers: token mixers and the blocks around them."""

from convnlp.layers.cross_attention import CrossAttention
from convnlp.layers.decoder import Decoder, DecoderLayer
from convnlp.layers.dropout import Dropout, dropout_seed
from convnlp.layers.encoder import Encoder, EncoderLayer
from convnlp.layers.feed_forward import FeedForward
from convnlp.layers.glu_conv_block import GLUConvBlock
from convnlp.layers.mixers import (
    MIXERS,
    DilatedConv,
    DynamicConv,
    LightweightConv,
    SelfAttention,
    build_mixer,
)
from convnlp.layers.relative_position_bias import RelativePositionBias
from convnlp.layers.residual import Residual
from convnlp.layers.token_mixer import TokenMixer

__all__ = [
    "MIXERS",
    "CrossAttention",
    "Decoder",
    "DecoderLayer",
    "DilatedConv",
    "Dropout",
    "DynamicConv",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "GLUConvBlock",
    "LightweightConv",
    "RelativePositionBias",
    "Residual",
    "SelfAttention",
    "TokenMixer",
    "build_mixer",
    "dropout_seed",
]
