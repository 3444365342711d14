"""Makes a new `Seq2SeqBackbone` of parts of another: without its decoder, or with one on its encoder."""

from convnlp.layers.mixer_options import options_for
from convnlp.models import lora
from convnlp.models.token_rows import check_length


def encoder_only(backbone):
    """Returns a copy without the decoder; see `Seq2SeqBackbone.encoder_only`."""
    lora.refuse_copy(backbone)
    config = {
        **_config(backbone),
        "num_decoder_layers": 0,
        "decoder_mixer": None,
        "decoder_kernel_size": None,
    }
    stack = backbone.reading_stack
    if not backbone.num_layers:
        config["num_layers"], config["pool_size"] = backbone.num_decoder_layers, 1  # a decoder never pools
        for argument in ("kernel_size", "dilation_rate"):
            config[argument] = [mixer[argument] for mixer in stack.mixers]
        config["encoder_mixer"] = [mixer["name"] for mixer in stack.mixers]
    if backbone.mixer_options:
        names = [mixer["name"] for mixer in stack.mixers]
        config["mixer_options"] = options_for(backbone.mixer_options, names)
    return _copy(backbone, stack, config)


def with_decoder(backbone, num_layers, mixer, cross_attention_init, kernel_size):
    """Returns a copy with an untrained decoder; see `Seq2SeqBackbone.with_decoder`."""
    lora.refuse_copy(backbone)
    if backbone.decoder is not None:
        raise ValueError(
            "`with_decoder` needs a backbone without one. Received: one with "
            f"num_decoder_layers={backbone.num_decoder_layers}"
        )
    changes = {
        "num_decoder_layers": check_length("num_layers", num_layers, 1),
        "decoder_mixer": mixer or backbone.encoder_mixer,
        "decoder_kernel_size": kernel_size,
        "cross_attention_init": cross_attention_init,
    }
    made = _copy(backbone, backbone.encoder, {**_config(backbone), **changes})
    made.decoder.expect_rows_of_length(backbone.token_embedding.row_length())
    return made


def _config(backbone):
    """Returns the arguments with which to build a copy, which has a name of its own."""
    config = {**backbone.get_config(), "dtype": backbone.dtype_policy}
    config.pop("name")
    return config


def _copy(backbone, stack, config):
    """Returns the backbone of a config, with copies of the embeddings and, as its encoder, of a stack.

    What is frozen in the original is frozen in the copy.
    """
    made = type(backbone).from_config(config)
    copies = [(made.token_embedding, backbone.token_embedding), (made.encoder, stack)]
    if backbone.position_layer is not None:
        copies.append((made.position_layer, backbone.position_layer))
    for copy, layer in copies:
        copy.set_weights(layer.get_weights())
        # A layer comes before its parts, which it sets too.
        for ours, theirs in zip(copy._flatten_layers(), layer._flatten_layers(), strict=True):
            if ours.trainable != theirs.trainable:
                ours.trainable = theirs.trainable
    return made
