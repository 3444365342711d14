"""Interprets the arguments of a `Seq2SeqBackbone`: checks, the mixer of each layer, positions.

Throughout, `config` is a dict of these arguments, and `side` is "encoder" or "decoder".
"""

import numpy as np

from convnlp.layers import MIXERS
from convnlp.layers.checks import require_count, require_rate
from convnlp.layers.cross_attention import CROSS_ATTENTION_INITS
from convnlp.layers.mixer_options import route_options
from convnlp.layers.mixers import require_mixer
from convnlp.models.layouts import LAYOUTS, layer_mixers
from convnlp.models.position_embedding import POSITION_EMBEDDINGS

_MOST_LAYERS = 1000


def plain(value):
    """Returns an argument with NumPy's numbers as Python's, so that it can be written as JSON.

    Example:
    >>> plain({"kernel_size": [np.int64(3), 7]})
    {'kernel_size': [3, 7]}
    """
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return (tuple if isinstance(value, tuple) else list)(map(plain, value))
    return value.item() if isinstance(value, np.generic) else value


def check(config):
    """Raises ValueError if a size, a rate or a choice is out of its range."""
    for name in ("vocabulary_size", "num_heads", "hidden_dim", "intermediate_dim"):
        require_count(name, config[name])
    for name in ("num_layers", "num_decoder_layers"):
        require_count(name, config[name], minimum=0)
        if config[name] > _MOST_LAYERS:
            raise ValueError(f"`{name}` must be at most {_MOST_LAYERS}. Received: {name}={config[name]}")
    if not config["num_layers"] + config["num_decoder_layers"]:
        raise ValueError("`num_layers` and `num_decoder_layers` must not both be 0. Received: 0 and 0")
    require_rate("dropout", config["dropout"])
    require_count("max_sequence_length", config["max_sequence_length"])
    pool_size = config["pool_size"]
    for size in pool_size if isinstance(pool_size, (list, tuple)) else [pool_size]:
        require_count("pool_size", size)
    _check_choice(config, "weight_softmax", (None, True, False))
    _check_choice(config, "cross_attention_init", CROSS_ATTENTION_INITS)


def _check_choice(config, name, choices):
    if config[name] not in choices:
        raise ValueError(f"`{name}` must be one of {choices}. Received: {name}={config[name]!r}")


def position_embedding(kind, encoder, decoder):
    """Returns what the argument means: "learned", "sinusoidal" or None.

    Args:
        kind: the argument `position_embedding`.
        encoder: `Encoder`; "auto" depends on its mixers.
        decoder: the same of the decoder, or None.

    Raises:
        ValueError: if `kind` is unknown.
    """
    if kind in (None, "none"):
        return None
    if kind != "auto" and kind not in POSITION_EMBEDDINGS:
        raise ValueError(
            f"`position_embedding` must be one of auto, none, {', '.join(POSITION_EMBEDDINGS)}. "
            f"Received: position_embedding={kind!r}"
        )
    if kind != "auto":
        return kind
    stacks = [stack.layers for stack in (encoder, decoder) if stack is not None and stack.layers]
    is_blind = any(not any(layer.mixer.knows_order for layer in layers) for layers in stacks)
    return "sinusoidal" if is_blind else None


def mixer_names(config, side):
    """Returns the name of each layer's mixer in the encoder or the decoder."""
    is_decoder = side == "decoder"
    num_layers = config["num_decoder_layers"] if is_decoder else config["num_layers"]
    argument = f"{side}_mixer" if config[f"{side}_mixer"] else "mixer"
    given = layer_mixers(config[argument], num_layers, is_decoder)
    is_list = isinstance(given, (list, tuple))
    for name in given if is_list else [given]:
        require_mixer(argument, name, () if is_list else LAYOUTS)
    if not num_layers:
        return []
    names = per_layer(given, argument, num_layers, is_decoder)
    if is_decoder:
        (_require_decoder if config["num_layers"] else _require_prefix)(argument, names)
    return names


def mixers(config):
    """Returns a dict of `build_mixer` arguments per layer, as {"encoder": [...], "decoder": [...]}."""
    names = {side: mixer_names(config, side) for side in ("encoder", "decoder")}
    options = route_options(config["mixer_options"] or {}, names["encoder"] + names["decoder"])
    return {side: _mixers(config, side, names[side], options) for side in names}


def _mixers(config, side, names, options):
    is_decoder, num_layers = side == "decoder", len(names)
    if not names:
        return []
    shared = {
        "hidden_dim": config["hidden_dim"],
        "intermediate_dim": config["intermediate_dim"],
        "num_heads": config["num_heads"],
        "weight_softmax": config["weight_softmax"],
        "max_sequence_length": config["max_sequence_length"],
        "dropout": config["dropout"],
        "causal": is_decoder and config["num_layers"] > 0,
    }
    kernels = per_layer(config["kernel_size"], "kernel_size", num_layers, is_decoder)
    if is_decoder and config["decoder_kernel_size"] is not None:
        kernels = per_layer(config["decoder_kernel_size"], "decoder_kernel_size", num_layers)
    columns = {
        "name": names,
        "kernel_size": kernels,
        "dilation_rate": per_layer(config["dilation_rate"], "dilation_rate", num_layers, is_decoder),
    }
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [{**shared, **row, **options.get(row["name"], {})} for row in rows]


def _require_decoder(argument, names):
    for name in names:
        if not MIXERS[name].supports_causal:
            raise ValueError(
                f"`{argument}` must be causal in a decoder, and {name!r} cannot be. Use it in the encoder, "
                f"with a causal `decoder_mixer`, or build an encoder alone with `num_decoder_layers=0`. "
                f"Received: {argument}={name!r}"
            )
        if not MIXERS[name].supports_step:
            raise ValueError(
                f"`{argument}` must have supports_step = True in a decoder, which writes step by step, and "
                f"{name!r} has not. Use it in the encoder, with another `decoder_mixer`, or build an encoder "
                f"alone with `num_decoder_layers=0`. Received: {argument}={name!r}"
            )


def _require_prefix(argument, names):
    for name in names:
        if not MIXERS[name].supports_prefix:
            raise ValueError(
                f"`{argument}` must have supports_prefix = True without an encoder, and {name!r} has not. "
                f"Use it in an encoder, with `num_layers` >= 1. Received: {argument}={name!r}, num_layers=0"
            )


def per_layer(value, name, num_layers, may_be_longer=False):
    """Returns an argument, which is one value for all layers or a list of one per layer, as a list.

    Args:
        value: the argument.
        name: str. Its name.
        num_layers: int. The length of the result.
        may_be_longer: bool. Whether a list of more layers may be given, of which the first count.

    Raises:
        ValueError: if a list has another length.
    """
    if not isinstance(value, (list, tuple)):
        return [value] * num_layers
    if len(value) < num_layers or (len(value) > num_layers and not may_be_longer):
        raise ValueError(
            f"`{name}` must have one entry per layer, that is {num_layers}. Received: {list(value)}"
        )
    return list(value[:num_layers])
