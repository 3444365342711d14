"""Saves presets with sums, and refuses a damaged preset, or one of another class, in one clear line."""

import collections
import contextlib
import json
import os
import re
import threading

import keras
import keras_nlp
import sentencepiece

from convnlp.models import arguments, checksums, precision, preset_names, preset_weights

_CONFIG, _TASK = "config.json", "task.json"
_TOKENIZER, _PREPROCESSOR = "tokenizer.json", "preprocessor.json"
_VOCABULARY = "assets/tokenizer/vocabulary.spm"
_WEIGHTS, _WEIGHTS_INDEX, _TASK_WEIGHTS = (
    preset_weights.WEIGHTS,
    preset_weights.INDEX,
    preset_weights.TASK_WEIGHTS,
)
_MOST_WEIGHTS = 2**40
_MOST_BYTES = {
    ".json": 2**26,
    ".spm": 2**28,
}  # for files that are read as a whole; T5's vocabularies have 2^20

_context = threading.local()


# === Saving ===


@contextlib.contextmanager
def saving(directory, variables=(), changed=lambda name: True):
    """Wraps code that writes into a preset: refuses weights that are not finite, and updates the sums.

    Inside another such context for the same directory, the outer one updates the sums.

    Args:
        directory: str.
        variables: list of `keras.Variable` to be saved.
        changed: callable str -> bool: the files that are written. Default: all.

    Raises:
        ValueError: if the directory is a URL or a weight is not finite, before anything is written.
    """
    arguments.check_local("preset_dir", directory)
    preset_weights.check_finite(variables, f"preset {directory} is not saved", "the model")
    outer, own = getattr(_context, "saving", None), os.path.abspath(directory)
    _context.saving = own
    try:
        yield
    finally:
        _context.saving = outer
    if outer != own:
        checksums.write(directory, changed)


def of_backbone(name):
    """Whether a backbone writes this file of a preset."""
    return name in (_CONFIG, "metadata.json", _WEIGHTS_INDEX) or name.startswith("model")


def of_text(name):
    """Whether a tokenizer or a preprocessor writes this file of a preset."""
    return name in (_TOKENIZER, _PREPROCESSOR) or name.startswith("assets/")


# === Loading ===


@contextlib.contextmanager
def explained(preset, cls, kwargs):
    """Wraps a `from_preset`: checks the directory first, and names it in whatever goes wrong later.

    keras_nlp would give a classifier without a head a random one, and reports a truncated file only in the
    words of its format's reader. Handles of remote presets ("hf://...") are left to keras_nlp.

    Args:
        preset: str. A name, or a directory written by `save_to_preset`; see `preset_names.locate`.
        cls: the class asked for: Seq2SeqBackbone, TextClassifier, Seq2SeqLM, a preprocessor or Tokenizer.
        kwargs: dict. The further arguments of `from_preset`.

    Yields:
        The directory, for `from_preset`; a handle is unchanged.

    Raises:
        ValueError: if the preset cannot be loaded; the message names the directory, the file in it and what
            was expected.
    """
    is_model = issubclass(cls, keras.Model)
    of_a_model = ("load_weights",) if is_model else ()
    arguments.refuse_unknown(cls, kwargs, also=("dtype", "config_file", *of_a_model))
    if is_model:
        precision.check_dtype(kwargs.get("dtype"))
    outer = getattr(_context, "loading", None)
    preset = preset_names.locate(preset)
    if "://" not in preset:
        num_weights = _check_model(preset, cls, kwargs) if is_model else _check_text(preset)
        _context.loading = os.path.abspath(preset), num_weights
    try:
        yield preset
    except (ImportError, MemoryError):
        raise
    except Exception as error:
        cause = error
        while isinstance(cause, TypeError) and (cause.__cause__ or cause.__context__):
            cause = cause.__cause__ or cause.__context__  # Keras shows the configuration, the cause far below
        reason = str(cause).strip().split("\n")[0]
        if reason.startswith("preset "):  # it names the file already
            raise ValueError(reason) from error
        raise ValueError(f"preset {preset}: cannot be loaded as {cls.__name__}: {reason}") from error
    finally:
        _context.loading = outer


@contextlib.contextmanager
def reading_weights(path, variables, complete=True):
    """Wraps code that reads a weight file: if it is a preset's, checks the file and the weights read from it.

    `keras_nlp.models.TextClassifier.from_preset` builds our class without calling our `from_preset`.

    Args:
        path: str.
        variables: list of `keras.Variable` that the file is read into.
        complete: bool. Whether the file must hold all of them.

    Raises:
        ValueError: as for `explained`, and if a weight is not finite.
    """
    directory, name = os.path.split(str(path))
    if name not in (_WEIGHTS, _WEIGHTS_INDEX, _TASK_WEIGHTS) or not _is_preset(directory):
        yield
        return
    if not _is_loading(directory):
        is_head = name == _TASK_WEIGHTS
        checksums.check(
            directory, lambda file: not file.endswith(".h5") or (file == _TASK_WEIGHTS) == is_head
        )
        _check_vocabulary(directory)
    found = preset_weights.shapes(directory, name if name == _TASK_WEIGHTS else _WEIGHTS)
    try:
        yield
    except ValueError as error:
        reason = str(error).strip().split("\n")[0]
        raise ValueError(f"preset {directory}: {name} does not fit the configuration: {reason}") from error
    if complete:
        preset_weights.check_complete(variables, found, f"preset {directory}", name)
    preset_weights.check_finite(variables, f"preset {directory}", name)


def check_assets(preset):
    """Raises ValueError if the files that a tokenizer reads are damaged."""
    preset = preset_names.locate(preset)
    if not _is_loading(preset) and "://" not in preset and _is_preset(preset):
        _check_text(preset)


def check_size(num_weights):
    """Raises ValueError if a model is too large for any machine, or for the weights of its preset.

    Args:
        num_weights: int. Number of weights of the model that is about to be built.
    """
    _, saved = getattr(_context, "loading", None) or (None, None)
    if saved is not None and num_weights > 2 * saved:
        raise ValueError(
            f"{_CONFIG} describes a model of {num_weights:,} weights; {_WEIGHTS} holds {saved:,}"
        )
    if num_weights > _MOST_WEIGHTS:
        raise ValueError(f"the sizes must make at most {_MOST_WEIGHTS:,} weights. Received: {num_weights:,}")


def load_task(preset, **kwargs):
    """Loads the model of a task from a preset, whichever it holds; takes the arguments of `from_preset`.

    Raises:
        ValueError: as for `explained`, and if the preset holds no task.
    """
    preset = preset_names.locate(preset)
    return _saved_class(preset, _TASK).from_preset(preset, **kwargs)


def load_any(preset, **kwargs):
    """Loads the model of a preset, a task or else a backbone; has the arguments and errors of `load_task`."""
    preset = preset_names.locate(preset)
    has_task = os.path.exists(os.path.join(preset, _TASK))
    return _saved_class(preset, _TASK if has_task else _CONFIG).from_preset(preset, **kwargs)


def _is_loading(directory):
    return (getattr(_context, "loading", None) or (None,))[0] == os.path.abspath(directory)


def _is_preset(directory):
    """Whether the directory has a Keras object's configuration; a run has a different config.json."""
    try:
        return "registered_name" in _read_json(directory, _CONFIG)
    except (ValueError, TypeError):
        return os.path.isfile(os.path.join(directory, checksums.FILE))


def _check_text(preset):
    """Checks what a tokenizer or a preprocessor needs."""
    checksums.check(preset, lambda name: not name.endswith(".h5"))
    _saved_class(preset, _CONFIG)
    _saved_class(preset, _TOKENIZER)
    _require(preset, _VOCABULARY, "the SentencePiece model")
    _check_objects(preset)
    _check_vocabulary(preset)


def _check_model(preset, cls, kwargs):
    """Checks all that it can before a layer is built; returns the saved backbone's number of weights."""
    checksums.check(preset)  # before any of its files is read
    is_task = hasattr(cls, "preprocessor_cls")
    saved_backbone = _saved_class(preset, _CONFIG)
    expected = cls.backbone_cls if is_task else cls
    if not issubclass(saved_backbone, expected):
        raise ValueError(
            f"preset {preset}: {_CONFIG} describes a {saved_backbone.__name__}; {cls.__name__} needs a "
            f"{expected.__name__}"
        )
    if is_task:
        _check_task(preset, cls, kwargs)
        if "preprocessor" not in kwargs:
            _saved_class(preset, _TOKENIZER)
            if os.path.exists(os.path.join(preset, _PREPROCESSOR)):
                _saved_class(preset, _PREPROCESSOR)
            _require(preset, _VOCABULARY, "the SentencePiece model")
    found = preset_weights.shapes(preset)
    _check_objects(preset)
    _check_configs(preset, saved_backbone, is_task and os.path.exists(os.path.join(preset, _TASK)), found)
    if "preprocessor" not in kwargs:
        _check_vocabulary(preset)
    return preset_weights.count(found)


def _check_task(preset, cls, kwargs):
    saved = _saved_class(preset, _TASK) if os.path.exists(os.path.join(preset, _TASK)) else None
    head = getattr(cls, "head_size_argument", None)
    if head in kwargs:
        return  # a new head on any backbone
    if saved is None or not issubclass(saved, cls):
        found = "has no task.json" if saved is None else f"holds a {saved.__name__}"
        advice = f"Pass {head}=N to put a new classification head on its encoder" if head else ""
        if head or (saved is not None and not _has_decoder(preset)):
            raise ValueError(f"preset {preset}: {found}; expected a {cls.__name__}. {advice}".rstrip(" ."))
    elif head:
        shapes = preset_weights.shapes(preset, _TASK_WEIGHTS).values()
        size = _read_json(preset, _TASK)["config"].get(head)
        if not any(size in shape for shape in shapes):
            raise ValueError(
                f"preset {preset}: {_TASK} says {head}={size!r}; the head in {_TASK_WEIGHTS} has "
                f"the shapes {', '.join(map(str, shapes))}"
            )


def _has_decoder(preset):
    return _read_json(preset, _CONFIG)["config"].get("num_decoder_layers") != 0


def _check_configs(preset, backbone_cls, has_task, found):
    """Checks that the backbone's configuration, which is in two files, fits its weights."""
    configs = {_CONFIG: _read_json(preset, _CONFIG)["config"]}
    if has_task:
        saved = _read_json(preset, _TASK)["config"].get("backbone")
        configs[_TASK] = saved.get("config") if isinstance(saved, dict) else None
        if not isinstance(configs[_TASK], dict):
            raise ValueError(f"preset {preset}: {_TASK} has no configuration of a backbone")
    known = arguments.names(backbone_cls)
    for name, config in configs.items():
        for argument in config:
            if argument not in known:
                raise ValueError(
                    f"preset {preset}: {name} sets {argument!r}, which is not an argument of "
                    f"{backbone_cls.__name__}"
                )
        _check_sizes(preset, name, config, found)
    for argument in sorted({*configs[_CONFIG], *configs.get(_TASK, {})} - {"name", "trainable", "dtype"}):
        first, *other = (config.get(argument) for config in configs.values())
        if other and other[0] != first:
            raise ValueError(
                f"preset {preset}: {_CONFIG} says {argument}={first!r}, and {_TASK} says {other[0]!r}"
            )


def _check_sizes(preset, name, config, found):
    """Checks the sizes that the shapes of the weights reveal; `check_size` does the rest."""
    layers, table = collections.defaultdict(set), (None, None)
    for path, shape in found.items():
        match = re.match(r"layers/(encoder|decoder|prefix_decoder)/layers/(\w+)/", path)
        if match:
            layers[match[1]].add(match[2])
        elif path.startswith("layers/token_embedding/"):
            table = shape
    if not layers or len(table) != 2:
        raise ValueError(f"preset {preset}: {_WEIGHTS} has no embedding and layers of a Seq2SeqBackbone")
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
                f"preset {preset}: {name} says {argument}={received!r}; the weights in "
                f"{_WEIGHTS} have {value}"
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
            raise ValueError(f"preset {preset}: {name} names another vocabulary than {_VOCABULARY}")

    for name in (_CONFIG, _TASK, _TOKENIZER, _PREPROCESSOR):
        if os.path.exists(os.path.join(preset, name)):
            check(name, _read_json(preset, name))


def _check_vocabulary(preset):
    """Checks that the tokenizer's ids are the rows of the embedding."""
    path = os.path.join(preset, _VOCABULARY)
    if not os.path.isfile(path) or not os.path.isfile(os.path.join(preset, _TOKENIZER)):
        return
    _require(preset, _VOCABULARY, "the SentencePiece model")
    try:
        with open(path, "rb") as file:
            pieces = sentencepiece.SentencePieceProcessor(model_proto=file.read()).vocab_size()
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"preset {preset}: {_VOCABULARY} is not a SentencePiece model") from error
    rows = _read_json(preset, _CONFIG)["config"].get("vocabulary_size")
    for name in (_TOKENIZER, _PREPROCESSOR, _TASK):
        if os.path.exists(os.path.join(preset, name)):
            for sentinels in _sentinels(_read_json(preset, name)):
                if not isinstance(sentinels, int) or pieces + sentinels != rows:
                    raise ValueError(
                        f"preset {preset}: {_VOCABULARY} has {pieces} pieces, and {name} adds {sentinels!r} "
                        f"sentinels; the embedding has vocabulary_size={rows!r} rows"
                    )


def _sentinels(value):
    """Yields the `num_sentinels` of each tokenizer in a configuration."""
    if isinstance(value, dict):
        if "num_sentinels" in value:
            yield value["num_sentinels"]
        for part in value.values():
            yield from _sentinels(part)


def _saved_class(preset, name):
    config = _read_json(preset, name)
    registered = config.get("registered_name") if isinstance(config, dict) else None
    if not isinstance(registered, str) or not isinstance(config.get("config"), dict):
        raise ValueError(f"preset {preset}: {name} is not the configuration of a Keras object")
    cls = keras.saving.get_registered_object(registered)
    if not isinstance(cls, type):
        raise ValueError(f"preset {preset}: {name} asks for the unknown class {registered!r}")
    return cls


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


def entry(preset, name, *keys):
    """Returns the value under the keys in a JSON file; None if there is none, or if the file is damaged."""
    try:
        with open(os.path.join(preset, name), encoding="utf-8") as file:
            value = json.load(file)
        for key in keys:
            value = value[key]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # if it is damaged, from_preset says so
    return value
