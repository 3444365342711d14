"""Keras layers: token mixers and the blocks around them."""

from convnlp.layers.mixers import MIXERS, DilatedConv, DynamicConv, LightweightConv, SelfAttention, build_mixer
from convnlp.layers.relative_position_bias import RelativePositionBias
from convnlp.layers.token_mixer import TokenMixer

__all__ = [
    "MIXERS",
    "DilatedConv",
    "DynamicConv",
    "LightweightConv",
    "RelativePositionBias",
    "SelfAttention",
    "TokenMixer",
    "build_mixer",
]
