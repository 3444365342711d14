"""Builds the components of a model from a config: number type, tokenizer and backbone."""

import pathlib

import tensorflow as tf

from convnlp import product_speed
from convnlp.layers.mixer_options import route_options
from convnlp.models import SIZES, Seq2SeqBackbone, Tokenizer
from convnlp.models.layouts import all_mixers


def check_mixer_options(config):
    """Raises ValueError if `model.mixer_options` do not belong to the mixers, or if a preset has its own."""
    model = config.model.to_dict()
    options = model["mixer_options"]
    if options and config.init_from:
        raise ValueError(
            "`model.mixer_options` must be empty when `init_from` names a preset, which has its own. "
            f"Received: model.mixer_options={options}"
        )
    names = []
    for field in ("mixer", "encoder_mixer", "decoder_mixer"):
        for name in (model[field] or "").split(","):
            names += all_mixers(name, is_decoder=False) + all_mixers(name, is_decoder=True)
    route_options(options, names)


def dtype_policy(config, strategy):
    """Returns the dtype policy of `train.dtype`; "auto" is mixed_bfloat16 if the hardware is fast at it.

    Raises:
        ValueError: if it is none of these.
    """
    if config.train.dtype not in ("auto", "float32", "mixed_bfloat16"):
        raise ValueError(
            "`train.dtype` must be auto, float32 or mixed_bfloat16. "
            f"Received: train.dtype={config.train.dtype!r}"
        )
    if config.train.dtype != "auto":
        return config.train.dtype
    return "mixed_bfloat16" if _has_fast_bfloat16(strategy) else "float32"


def _has_fast_bfloat16(strategy):
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return True
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        capability = tf.config.experimental.get_device_details(gpus[0]).get("compute_capability", (0, 0))
        return capability >= (8, 0)
    cpu = pathlib.Path("/proc/cpuinfo")
    flags = set(cpu.read_text().split()) if cpu.exists() else set()
    # With avx512_bf16 alone, some CPUs are twice as fast in bfloat16 and some are half as fast.
    return "amx_bf16" in flags or ("avx512_bf16" in flags and product_speed.bfloat16_is_faster())


def tokenizer(config):
    """Returns the tokenizer of `config.tokenizer` or the preset `config.init_from`.

    Raises:
        ValueError: if there is neither, or both have different vocabularies.
    """
    given = Tokenizer.from_file(config.tokenizer) if config.tokenizer else None
    if config.init_from:
        found = Tokenizer.from_preset(config.init_from)
        if given is not None and given.get_vocabulary() != found.get_vocabulary():
            raise ValueError(
                "`tokenizer` must be empty, or the vocabulary of the preset that `init_from` names; an empty "
                "init_from (--config.init_from=) trains from random weights. "
                f"Received: tokenizer={config.tokenizer!r}, init_from={config.init_from!r}"
            )
        return found
    if given is not None:
        return given
    raise ValueError(
        "`tokenizer` must be the path of a SentencePiece model when `init_from` is empty. Received: ''"
    )


def backbone(config, vocabulary_size, dtype):
    """Returns the backbone of `config.init_from` with the config's dropout, or a new one.

    Call it in the strategy's scope. An encoder without a decoder gets the decoder layers that the config
    asks for.

    Args:
        config: an experiment's config; the new backbone has the sizes and mixers of its `model`.
        vocabulary_size: int. Ids of the tokenizer, the rows of a new embedding.
        dtype: dtype policy, as from `dtype_policy`.

    Raises:
        ValueError: if the size is unknown, and as for `Seq2SeqBackbone` and its `from_preset`.
    """
    if config.init_from:
        found = Seq2SeqBackbone.from_preset(config.init_from, dropout=config.model.dropout, dtype=dtype)
        if found.decoder is not None or not config.model.num_decoder_layers:
            return found
        mixer = config.model.decoder_mixer and _one_or_list(config.model.decoder_mixer.split(","))
        kernel_size = _one_or_list(config.model.decoder_kernel_size) or None
        return found.with_decoder(
            config.model.num_decoder_layers, mixer, config.model.cross_attention_init, kernel_size
        )
    model = config.model.to_dict()
    size = model.pop("size")
    if size not in SIZES:
        raise ValueError(f"`model.size` must be one of {', '.join(SIZES)}. Received: model.size={size!r}")
    arguments = {**SIZES[size], **{name: value for name, value in model.items() if value is not None}}
    lengths = (config.data.input_length, config.data.target_length)
    longest = max(lengths) if arguments["num_layers"] else sum(lengths)  # without an encoder, of one row
    arguments.setdefault("max_sequence_length", longest)
    for name in ("mixer", "encoder_mixer", "decoder_mixer"):
        if arguments.get(name):
            arguments[name] = _one_or_list(arguments[name].split(","))
    for name in ("kernel_size", "dilation_rate", "pool_size"):
        arguments[name] = _one_or_list(arguments[name])
    arguments["decoder_kernel_size"] = _one_or_list(arguments["decoder_kernel_size"]) or None
    return Seq2SeqBackbone(vocabulary_size, **arguments, dtype=dtype)


def _one_or_list(values):
    return values[0] if len(values) == 1 else list(values)
