"""Saves presets with sums, and loads them: what is wrong with one is said in one clear line."""

import contextlib
import json
import os
import threading

import keras

from convnlp.models import arguments, checksums, precision, preset_checks, preset_names, preset_weights
from convnlp.models.preset_checks import CONFIG, PREPROCESSOR, TASK, TOKENIZER
from convnlp.models.preset_weights import INDEX, TASK_WEIGHTS, WEIGHTS

_MOST_WEIGHTS = 2**40

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


def is_saving():
    """Returns whether this thread writes a preset."""
    return getattr(_context, "saving", None) is not None


def remove_older_weights(path):
    """Removes the weight files that an earlier save has left beside those that were just written.

    They would be loaded in place of the new ones, or packed with them. Outside `saving`, it does nothing.

    Args:
        path: str. What was written, `WEIGHTS` or `INDEX`.
    """
    directory, name = os.path.split(os.path.abspath(path))
    if getattr(_context, "saving", None) == directory and name in (WEIGHTS, INDEX):
        preset_weights.remove_others(directory, name)


def of_backbone(name):
    """Whether a backbone writes this file of a preset."""
    return name in (CONFIG, "metadata.json", INDEX) or name.startswith("model")


def of_text(name):
    """Whether a tokenizer or a preprocessor writes this file of a preset."""
    return name in (TOKENIZER, PREPROCESSOR) or name.startswith("assets/")


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
        num_weights = (
            preset_checks.check_model(preset, cls, kwargs) if is_model else preset_checks.check_text(preset)
        )
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
    if name not in (WEIGHTS, INDEX, TASK_WEIGHTS) or not preset_checks.is_preset(directory):
        yield
        return
    if not _is_loading(directory):
        is_head = name == TASK_WEIGHTS
        checksums.check(directory, lambda file: not file.endswith(".h5") or (file == TASK_WEIGHTS) == is_head)
        preset_checks.check_vocabulary(directory)
    found = preset_weights.shapes(directory, name if name == TASK_WEIGHTS else WEIGHTS)
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
    if not _is_loading(preset) and "://" not in preset and preset_checks.is_preset(preset):
        preset_checks.check_text(preset)


def check_size(num_weights):
    """Raises ValueError if a model is too large for any machine, or for the weights of its preset.

    Args:
        num_weights: int. Number of weights of the model that is about to be built.
    """
    _, saved = getattr(_context, "loading", None) or (None, None)
    if saved is not None and num_weights > 2 * saved:
        raise ValueError(f"{CONFIG} describes a model of {num_weights:,} weights; {WEIGHTS} holds {saved:,}")
    if num_weights > _MOST_WEIGHTS:
        raise ValueError(f"the sizes must make at most {_MOST_WEIGHTS:,} weights. Received: {num_weights:,}")


def load_any(preset, **kwargs):
    """Loads the model of a preset, a task or else a backbone; takes the arguments of `from_preset`.

    Raises:
        ValueError: as for `explained`.
    """
    preset = preset_names.locate(preset)
    cls = task_class(preset) or preset_checks.saved_class(preset, CONFIG)
    return cls.from_preset(preset, **kwargs)


def task_class(directory):
    """Returns the class of a preset's task, before anything is loaded; None for a backbone alone."""
    has_task = os.path.exists(os.path.join(directory, TASK))
    return preset_checks.saved_class(directory, TASK) if has_task else None


def _is_loading(directory):
    return (getattr(_context, "loading", None) or (None,))[0] == os.path.abspath(directory)


def entry(preset, name, *keys):
    """Returns the value under the keys in a JSON file; None if there is none, or if the file is damaged."""
    try:
        with open(os.path.join(preset, name), encoding="utf-8") as file:
            value = json.load(file)
        for key in keys:
            value = value[key]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None  # if it is damaged, from_preset says so
    return value
