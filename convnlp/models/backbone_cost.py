"""What a `Seq2SeqBackbone` costs, by the formulae of its layers.

Throughout, `layers` is a `BackboneLayers`, built or not, or a backbone, whose layers have the same names.
"""


def cost(layers, encoder_length, decoder_length):
    """Returns what `Seq2SeqBackbone.cost` does, without the receptive field.

    Raises:
        NotImplementedError: if a mixer does not state its cost.
    """
    table = _table(layers)
    encoder = layers.encoder.cost(encoder_length)
    total = {**encoder, "parameters": encoder["parameters"] + _num_embedding_weights(layers)}
    total["state_elements"] = 0
    if layers.decoder is not None:
        decoder = layers.decoder.cost(decoder_length, layers.encoder.output_length(encoder_length))
        total["parameters"] += decoder["parameters"]
        total["multiply_adds"] += decoder["multiply_adds"] + table * decoder_length
        total["state_elements"] = decoder["state_elements"]
    return total


def num_weights(layers):
    """Returns the number of weights; only those of the embeddings if a mixer does not state its cost yet."""
    try:
        return cost(layers, 1, 1)["parameters"]
    except NotImplementedError:  # a mixer of the user's own
        return _num_embedding_weights(layers)


def _num_embedding_weights(layers):
    positions = 0 if layers.position_layer is None else layers.position_layer.num_parameters()
    return _table(layers) + positions


def _table(layers):
    """Returns the number of elements of the tied embedding's table, V D."""
    return layers.token_embedding.input_dim * layers.token_embedding.output_dim
