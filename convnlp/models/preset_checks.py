"""Checks the files of a preset against each other, before anything is built from them.

Each error is one line that names the directory, the file in it and what was expected there.
"""

import collections
import json
import os
import re

import keras
import keras_nlp
import sentencepiece

from convnlp.models import arguments, checksums, preset_weights
from convnlp.models.preset_weights import TASK_WEIGHTS, WEIGHTS

CONFIG, TASK = "config.json", "task.json"
TOKENIZER, PREPROCESSOR = "tokenizer.json", "preprocessor.json"
VOCABULARY = "assets/tokenizer/vocabulary.spm"
# For files that are read as a whole; T5's vocabularies have 2^20.
_MOST_BYTES = {".json": 2**26, ".spm": 2**28}


def is_preset(directory):
    """Returns whether a directory has a Keras object's configuration; a run has a different config.json."""
    try:
        return "registered_name" in _read_json(directory, CONFIG)
    except (ValueError, TypeError):
        return os.path.isfile(os.path.join(directory, checksums.FILE))


def check_text(preset):
    """Raises ValueError unless a preset has what a tokenizer or a preprocessor needs."""
    checksums.check(preset, lambda name: not name.endswith(".h5"))
    saved_class(preset, CONFIG)
    saved_class(preset, TOKENIZER)
    _require(preset, VOCABULARY, "the SentencePiece model")
    _check_objects(preset)
    check_vocabulary(preset)


def check_model(preset, cls, kwargs):
    """Checks all that can be checked before a layer is built.

    Args:
        preset: str. The directory.
        cls: the class asked for: `Seq2SeqBackbone`, or that of a task.
        kwargs: dict. The further arguments of `from_preset`.

    Returns:
        int, the saved backbone's number of weights.

    Raises:
        ValueError: if the preset cannot be loaded as `cls`; the message names the file and what was expected.
    """
    checksums.check(preset)  # before any of its files is read
    is_task = hasattr(cls, "preprocessor_cls")
    saved_backbone = saved_class(preset, CONFIG)
    expected = cls.backbone_cls if is_task else cls
    if not issubclass(saved_backbone, expected):
        raise ValueError(
            f"preset {preset}: {CONFIG} describes a {saved_backbone.__name__}; {cls.__name__} needs a "
            f"{expected.__name__}"
        )
    if is_task:
        _check_task(preset, cls, kwargs)
        if "preprocessor" not in kwargs:
            saved_class(preset, TOKENIZER)
            if os.path.exists(os.path.join(preset, PREPROCESSOR)):
                saved_class(preset, PREPROCESSOR)
            _require(preset, VOCABULARY, "the SentencePiece model")
    found = preset_weights.shapes(preset)
    _check_objects(preset)
    _check_configs(preset, saved_backbone, is_task and os.path.exists(os.path.join(preset, TASK)), found)
    if "preprocessor" not in kwargs:
        check_vocabulary(preset)
    return preset_weights.count(found)


def check_vocabulary(preset):
    """Raises ValueError unless the tokenizer's ids are the rows of the embedding."""
    path = os.path.join(preset, VOCABULARY)
    if not os.path.isfile(path) or not os.path.isfile(os.path.join(preset, TOKENIZER)):
        return
    _require(preset, VOCABULARY, "the SentencePiece model")
    try:
        with open(path, "rb") as file:
            pieces = sentencepiece.SentencePieceProcessor(model_proto=file.read()).vocab_size()
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"preset {preset}: {VOCABULARY} is not a SentencePiece model") from error
    rows = _read_json(preset, CONFIG)["config"].get("vocabulary_size")
    for name in (TOKENIZER, PREPROCESSOR, TASK):
        if os.path.exists(os.path.join(preset, name)):
            for sentinels in _sentinels(_read_json(preset, name)):
                if not isinstance(sentinels, int) or pieces + sentinels != rows:
                    raise ValueError(
                        f"preset {preset}: {VOCABULARY} has {pieces} pieces, and {name} adds {sentinels!r} "
                        f"sentinels; the embedding has vocabulary_size={rows!r} rows"
                    )


def saved_class(preset, name):
    """Returns the class in a configuration of a preset; raises ValueError if there is no such class.

    Args:
        preset: str. The directory.
        name: str. The file, such as `CONFIG`.
    """
    config = _read_json(preset, name)
    registered = config.get("registered_name") if isinstance(config, dict) else None
    if not isinstance(registered, str) or not isinstance(config.get("config"), dict):
        inner = os.path.join(preset, "preset")  # where a run saves its own
        hint = f"; the run's preset is {inner}" if os.path.isdir(inner) else ""
        raise ValueError(f"preset {preset}: {name} is not the configuration of a Keras object{hint}")
    cls = keras.saving.get_registered_object(registered)
    if not isinstance(cls, type):
        raise ValueError(f"preset {preset}: {name} asks for the unknown class {registered!r}")
    return cls


def _check_task(preset, cls, kwargs):
    saved = saved_class(preset, TASK) if os.path.exists(os.path.join(preset, TASK)) else None
    head = getattr(cls, "head_size_argument", None)
    if head in kwargs:
        return  # a new head on any backbone
    if saved is None or not issubclass(saved, cls):
        found = "has no task.json" if saved is None else f"holds a {saved.__name__}"
        advice = f"Pass {head}=N to put a new classification head on its encoder" if head else ""
        if head or (saved is not None and not _has_decoder(preset)):
            raise ValueError(f"preset {preset}: {found}; expected a {cls.__name__}. {advice}".rstrip(" ."))
        return
    _check_head(preset, cls, kwargs)
    if head:
        shapes = preset_weights.shapes(preset, TASK_WEIGHTS).values()
        size = _read_json(preset, TASK)["config"].get(head)
        if not any(size in shape for shape in shapes):
            raise ValueError(
                f"preset {preset}: {TASK} says {head}={size!r}; the head in {TASK_WEIGHTS} has "
                f"the shapes {', '.join(map(str, shapes))}"
            )


def _check_head(preset, cls, kwargs):
    """Checks that no argument asks for another input of a saved head than the one that it was trained for.

    Without weights of another shape, such as for another pooling, it would be loaded all the same.
    """
    if not kwargs.get("load_weights", True):
        return
    saved, size = _read_json(preset, TASK)["config"], getattr(cls, "head_size_argument", None)
    for name in getattr(cls, "head_arguments", ()):
        if name in kwargs and kwargs[name] != saved.get(name, kwargs[name]):
            advice = f", unless {size}=N asks for a new head" if size else ""
            raise ValueError(
                f"preset {preset}: `{name}` must be {saved[name]!r}, which the head in {TASK_WEIGHTS} was "
                f"trained with{advice}. Received: {name}={kwargs[name]!r}"
            )


def _has_decoder(preset):
    return _read_json(preset, CONFIG)["config"].get("num_decoder_layers") != 0


def _check_configs(preset, backbone_cls, has_task, found):
    """Checks that the backbone's configuration, which is in two files, fits its weights."""
    configs = {CONFIG: _read_json(preset, CONFIG)["config"]}
    if has_task:
        saved = _read_json(preset, TASK)["config"].get("backbone")
        configs[TASK] = saved.get("config") if isinstance(saved, dict) else None
        if not isinstance(configs[TASK], dict):
            raise ValueError(f"preset {preset}: {TASK} has no configuration of a backbone")
    known = arguments.names(backbone_cls)
    for name, config in configs.items():
        for argument in config:
            if argument not in known:
                raise ValueError(
                    f"preset {preset}: {name} sets {argument!r}, which is not an argument of "
                    f"{backbone_cls.__name__}"
                )
        _check_sizes(preset, name, config, found)
    for argument in sorted({*configs[CONFIG], *configs.get(TASK, {})} - {"name", "trainable", "dtype"}):
        first, *other = (config.get(argument) for config in configs.values())
        if other and other[0] != first:
            raise ValueError(
                f"preset {preset}: {CONFIG} says {argument}={first!r}, and {TASK} says {other[0]!r}"
            )


def _check_sizes(preset, name, config, found):
    """Checks the sizes that the shapes of the weights reveal; `presets.check_size` does the rest."""
    layers, table = collections.defaultdict(set), (None, None)
    for path, shape in found.items():
        match = re.match(r"layers/(encoder|decoder|prefix_decoder)/layers/(\w+)/", path)
        if match:
            layers[match[1]].add(match[2])
        elif path.startswith("layers/token_embedding/"):
            table = shape
    if not layers or len(table) != 2:
        raise ValueError(f"preset {preset}: {WEIGHTS} has no embedding and layers of a Seq2SeqBackbone")
    for argument, value in (
        ("vocabulary_size", table[0]),
        ("hidden_dim", table[1]),
        ("num_layers", len(layers["encoder"])),
        ("num_decoder_layers", len(layers["decoder"] | layers["prefix_decoder"])),
    ):
        received = config.get(argument)
        if argument == "num_decoder_layers" and received is None:
            received = config.get("num_layers")
        if received != value:
            raise ValueError(
                f"preset {preset}: {name} says {argument}={received!r}; the weights in {WEIGHTS} have {value}"
            )


def _check_objects(preset):
    """Checks that the configurations name only models, tokenizers and preprocessors, ours or a user's.

    Those of keras_nlp itself would read files that their configuration names.
    """
    kinds = (
        keras_nlp.models.Backbone,
        keras_nlp.models.Preprocessor,
        keras_nlp.models.Task,
        keras_nlp.tokenizers.Tokenizer,
    )

    def check(name, value):
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            check(name, part)
        if not isinstance(value, dict) or "class_name" not in value:
            return
        if value.get("module") == "keras" and value["class_name"] in ("DTypePolicy", "DTypePolicyMap"):
            return
        asked = value.get("registered_name") or value["class_name"]
        cls = keras.saving.get_registered_object(asked) if isinstance(asked, str) else None
        is_ours = isinstance(cls, type) and issubclass(cls, kinds) and not cls.__module__.startswith("keras_")
        if not is_ours:
            raise ValueError(f"preset {preset}: {name} asks for the unknown class {asked!r:.100}")
        config = value.get("config")
        if isinstance(config, dict) and config.get("proto") is not None:
            raise ValueError(f"preset {preset}: {name} names another vocabulary than {VOCABULARY}")

    for name in (CONFIG, TASK, TOKENIZER, PREPROCESSOR):
        if os.path.exists(os.path.join(preset, name)):
            check(name, _read_json(preset, name))


def _sentinels(value):
    """Yields the `num_sentinels` of each tokenizer in a configuration."""
    if isinstance(value, dict):
        if "num_sentinels" in value:
            yield value["num_sentinels"]
        for part in value.values():
            yield from _sentinels(part)


def _read_json(preset, name):
    path = _require(preset, name, "a JSON file")
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested without end
        raise ValueError(
            f"preset {preset}: {name} is damaged, expected a complete JSON file ({error})"
        ) from error


def _require(preset, name, what):
    path = os.path.join(preset, name)
    if not os.path.isfile(path):
        raise ValueError(f"preset {preset}: {name} is missing, expected {what} there")
    most = _MOST_BYTES[os.path.splitext(name)[1]]
    if os.path.getsize(path) > most:
        raise ValueError(f"preset {preset}: {name} is larger than {most >> 20} MiB, expected {what} there")
    return path
