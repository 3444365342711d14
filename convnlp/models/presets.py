"""One clear error for a preset that is missing, damaged, or of another class."""

import contextlib
import json
import os

import h5py
import keras

_CONFIG, _TASK = "config.json", "task.json"
_TOKENIZER, _PREPROCESSOR = "tokenizer.json", "preprocessor.json"
_WEIGHTS, _WEIGHTS_INDEX, _TASK_WEIGHTS = "model.weights.h5", "model.weights.json", "task.weights.h5"
_VOCABULARY = "assets/tokenizer/vocabulary.spm"


@contextlib.contextmanager
def explained(preset, cls, kwargs):
    """Around a `from_preset`: looks the directory over first, and names it in whatever goes wrong later.

    keras_nlp would load a classifier whose head is missing with a random one, and reports a truncated file
    by what the reader of its format says. Handles of remote presets ("hf://...") are left to keras_nlp.

    Args:
        preset: str. A directory written by `save_to_preset`.
        cls: the class asked for: Seq2SeqBackbone, TextClassifier or Seq2SeqLM.
        kwargs: dict. The further arguments of `from_preset`.

    Raises:
        ValueError: naming the directory, the file in it and what was expected.
    """
    if "://" not in str(preset):
        _check(str(preset), cls, kwargs)
    try:
        yield
    except (ImportError, MemoryError):
        raise
    except Exception as error:
        reason = str(error).strip().split("\n")[0]
        raise ValueError(f"preset {preset}: cannot be loaded as {cls.__name__}: {reason}") from error


def load_task(preset):
    """The `TextClassifier` or `Seq2SeqLM` that a preset directory holds, whichever it is.

    Raises:
        ValueError: as `explained`, and if it holds neither.
    """
    _check_directory(preset)
    return _saved_class(preset, _TASK).from_preset(preset)


def _check_directory(preset):
    if not os.path.isdir(preset):
        raise ValueError(f"preset {preset}: no such directory. Expected one written by `save_to_preset`")


def _check(preset, cls, kwargs):
    _check_directory(preset)
    is_task = issubclass(cls, keras.Model) and hasattr(cls, "preprocessor_cls")
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
    if not os.path.exists(os.path.join(preset, _WEIGHTS_INDEX)):  # of weights in several files
        _check_weights(preset, _WEIGHTS)


def _check_task(preset, cls, kwargs):
    saved = _saved_class(preset, _TASK) if os.path.exists(os.path.join(preset, _TASK)) else None
    has_head = "num_classes" in cls.__init__.__code__.co_varnames
    if has_head and "num_classes" in kwargs:
        return  # a new head on any backbone
    if saved is None or not issubclass(saved, cls):
        found = "has no task.json" if saved is None else f"holds a {saved.__name__}"
        advice = "Pass num_classes=N to put a new classification head on its encoder" if has_head else ""
        if has_head or (saved is not None and not _has_decoder(preset)):
            raise ValueError(f"preset {preset}: {found}; expected a {cls.__name__}. {advice}".rstrip(" ."))
    elif has_head:
        _check_weights(preset, _TASK_WEIGHTS)


def _has_decoder(preset):
    return _read_json(preset, _CONFIG)["config"].get("num_decoder_layers") != 0


def _saved_class(preset, name):
    config = _read_json(preset, name)
    registered = config.get("registered_name") if isinstance(config, dict) else None
    if not isinstance(registered, str) or "config" not in config:
        raise ValueError(f"preset {preset}: {name} is not the configuration of a Keras object")
    cls = keras.saving.get_registered_object(registered)
    if cls is None:
        raise ValueError(f"preset {preset}: {name} asks for the unknown class {registered!r}")
    return cls


def _read_json(preset, name):
    path = _require(preset, name, "a JSON file")
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as error:  # not JSON, or not UTF-8
        raise ValueError(
            f"preset {preset}: {name} is damaged, expected a complete JSON file ({error})"
        ) from error


def _check_weights(preset, name):
    path = _require(preset, name, "the weights")
    try:
        with h5py.File(path, "r") as file:
            file.visititems(
                lambda _, item: item[...] if isinstance(item, h5py.Dataset) and item.size < 64 else None
            )
    except (OSError, RuntimeError, KeyError) as error:
        raise ValueError(
            f"preset {preset}: {name} is damaged, expected a complete HDF5 file ({error})"
        ) from error


def _require(preset, name, what):
    path = os.path.join(preset, name)
    if not os.path.isfile(path):
        raise ValueError(f"preset {preset}: {name} is missing, expected {what} there")
    return path
