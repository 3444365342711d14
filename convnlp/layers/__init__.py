"""Keras layers: token mixers and the blocks around them."""

from convnlp.layers.cross_attention import CrossAttention
from convnlp.layers.decoder import Decoder, DecoderLayer
from convnlp.layers.dropout import Dropout, dropout_seed
from convnlp.layers.encoder import Encoder, EncoderLayer
from convnlp.layers.feed_forward import FeedForward
from convnlp.layers.glu_conv_block import GLUConvBlock
from convnlp.layers.hashed_ngrams import HashedNgrams
from convnlp.layers.masks import Masks
from convnlp.layers.mixers import (
    MIXERS,
    ConvS2S,
    DilatedConv,
    DynamicConv,
    ExternalAttention,
    FeedForwardStack,
    FocalAttention,
    FourierMixing,
    GatedDilatedConv,
    GatedLongConv,
    LatentAttention,
    LightweightConv,
    LinearAttention,
    Linformer,
    LocalAttention,
    MatrixDecomposition,
    MBConv,
    MLPMixer,
    Muse,
    OutlookAttention,
    RelativeAttention,
    ResMLP,
    SelfAttention,
    SpatialGating,
    Synthesizer,
    build_mixer,
    register_mixer,
)
from convnlp.layers.prefix_decoder import PrefixDecoder
from convnlp.layers.question_summary import QuestionSummary
from convnlp.layers.relative_position_bias import RelativePositionBias
from convnlp.layers.residual import Residual
from convnlp.layers.span_pointers import SpanPointers
from convnlp.layers.token_mixer import TokenMixer

__all__ = [
    "MIXERS",
    "ConvS2S",
    "CrossAttention",
    "Decoder",
    "DecoderLayer",
    "DilatedConv",
    "Dropout",
    "DynamicConv",
    "Encoder",
    "EncoderLayer",
    "ExternalAttention",
    "FeedForward",
    "FeedForwardStack",
    "FocalAttention",
    "FourierMixing",
    "GLUConvBlock",
    "GatedDilatedConv",
    "GatedLongConv",
    "HashedNgrams",
    "LatentAttention",
    "LightweightConv",
    "LinearAttention",
    "Linformer",
    "LocalAttention",
    "MBConv",
    "MLPMixer",
    "Masks",
    "MatrixDecomposition",
    "Muse",
    "OutlookAttention",
    "PrefixDecoder",
    "QuestionSummary",
    "RelativeAttention",
    "RelativePositionBias",
    "ResMLP",
    "Residual",
    "SelfAttention",
    "SpanPointers",
    "SpatialGating",
    "Synthesizer",
    "TokenMixer",
    "build_mixer",
    "dropout_seed",
    "register_mixer",
]
