"""Builds the layers of a `Seq2SeqBackbone`: two embeddings and two stacks."""

import typing

import keras

from convnlp.layers import Decoder, Encoder, PrefixDecoder
from convnlp.models import backbone_arguments, backbone_cost, presets
from convnlp.models.position_embedding import PositionEmbedding
from convnlp.models.token_embedding import TokenEmbedding


class BackboneLayers(typing.NamedTuple):
    """The layers of a backbone, by the names that they have in it; None for what it does without."""

    token_embedding: TokenEmbedding
    position_layer: PositionEmbedding | None
    encoder: Encoder
    decoder: keras.layers.Layer | None  # Decoder or PrefixDecoder


def build(config, dtype):
    """Returns the `BackboneLayers`, with their weights.

    Args:
        config: dict of all arguments of a `Seq2SeqBackbone`; `backbone_arguments.check` has passed it.
        dtype: dtype policy, or None for the global one.

    Raises:
        ValueError: if a mixer or the position embedding is unknown, a list has the wrong length, a mixer does
            not support its use, or the model is too large. No weight exists then.
    """
    mixers = backbone_arguments.mixers(config)
    hidden_dim = config["hidden_dim"]
    embedding = TokenEmbedding(config["vocabulary_size"], hidden_dim, dtype=dtype, name="token_embedding")
    encoder = Encoder(
        mixers["encoder"],
        config["intermediate_dim"],
        config["residual_form"],
        config["dropout"],
        backbone_arguments.per_layer(config["pool_size"], "pool_size", config["num_layers"]),
        dtype=dtype,
        name="encoder",
    )
    decoder = _decoder(config, mixers["decoder"], dtype)
    positions = None
    kind = backbone_arguments.position_embedding(config["position_embedding"], encoder, decoder)
    if kind is not None:
        positions = PositionEmbedding(
            kind, hidden_dim, config["max_sequence_length"], dtype=dtype, name="position_embedding"
        )
    layers = BackboneLayers(embedding, positions, encoder, decoder)
    presets.check_size(backbone_cost.num_weights(layers))
    for stack in filter(None, (encoder, decoder)):
        stack.build((None, None, hidden_dim))
    if positions is not None:
        positions.build()
    return layers


def _decoder(config, mixers, dtype):
    """Returns the stack that writes the target, yet to be built, or None for an encoder alone."""
    residual_form, dropout = config["residual_form"], config["dropout"]
    if not config["num_layers"]:
        return PrefixDecoder(
            mixers, config["intermediate_dim"], residual_form, dropout, dtype=dtype, name="decoder"
        )
    if not config["num_decoder_layers"]:
        return None
    return Decoder(
        mixers,
        config["intermediate_dim"],
        config["num_heads"],
        config["cross_attention_init"],
        residual_form,
        dropout,
        dtype=dtype,
        name="decoder",
    )
