"""Presets by name: those that ship with the package, listed as keras_nlp lists its own."""

import atexit
import os
import re
import shutil
import tempfile
import warnings

import tensorflow as tf
from keras_hub.src.utils import preset_utils  # there is no public form

_MARKS = ("config.json", "tokenizer.json")  # a preset has one of them
_directories = {}  # name -> directory of its files
_copies = {}  # URL -> directory of its copy


def register(presets, backbone_cls):
    """Lists presets, so that `presets` shows them, and `from_preset` and the programs find them by name.

    A preset whose files are missing, as in an incomplete copy of the package, is left out.

    Args:
        presets: dict as `convnlp.presets.PRESETS`, name -> {"metadata": {"description": str, "params": int},
            "kaggle_handle": str, the directory of its files}.
        backbone_cls: the class of their backbones.

    Raises:
        ValueError: if a name is a path, or if keras_nlp has a preset of that name.
    """
    for name in presets:
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise ValueError(f"`presets` must have names, not paths. Received: {name!r}")
        if name in preset_utils.BUILTIN_PRESETS and name not in _directories:
            raise ValueError(f"`presets` must have names that keras_nlp has not taken. Received: {name!r}")
    found = {
        name: entry
        for name, entry in presets.items()
        if os.path.isfile(os.path.join(entry["kaggle_handle"], preset_utils.CONFIG_FILE))
    }
    preset_utils.register_presets(found, backbone_cls)
    _directories.update({name: entry["kaggle_handle"] for name, entry in found.items()})


def names():
    """Returns the names that `locate` knows, sorted."""
    return sorted(_directories)


def locate(preset):
    """Returns the directory of a preset that a user names.

    A listed name always means that preset, as in keras_nlp; a directory of the same name is `./NAME`, and a
    warning says so. A directory behind a URL of TensorFlow's file systems, such as "gs://...", is copied; the
    copy lasts as long as the process. A handle of keras_nlp, such as "hf://...", is returned unchanged.

    Args:
        preset: str or path-like. A name of `names()`, or a directory written by `save_to_preset`.

    Returns:
        str.

    Raises:
        ValueError: if it is neither; the message lists the known names. Also if a URL cannot be read.
    """
    preset = str(preset)
    if preset in _directories:
        if os.path.isdir(preset):
            warnings.warn(
                f"preset {preset}: the one that ships with convnlp is taken, not the directory of that name; "
                f"its path is ./{preset}",
                stacklevel=2,
            )
        return _directories[preset]
    scheme, separator, _ = preset.partition("://")
    is_remote = bool(separator) and scheme in tf.io.gfile.get_registered_schemes()
    if is_remote and preset not in _copies and (copied := _copy_of(preset)):
        _copies[preset] = copied  # where there is none yet, the next call looks again
    if preset in _copies:
        return _copies[preset]
    if os.path.isdir(preset) or (separator and not is_remote):
        return preset
    named = f", or one of: {', '.join(names())}" if _directories else ""
    raise ValueError(f"preset {preset}: no such directory. Expected one written by `save_to_preset`{named}")


def _copy_of(url):
    """Returns a copy of the preset behind a URL, or None if there is none."""
    gfile = tf.io.gfile
    try:
        # First, or a wrong URL would copy all of a run, or of a bucket.
        if not any(gfile.exists(os.path.join(url, name)) for name in _MARKS):
            return None
        base = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, base, ignore_errors=True)
        copied = os.path.join(base, *_parts(url))  # so that messages tell which preset it is
        for folder, _, names in gfile.walk(url):
            target = os.path.join(copied, *_parts(folder.removeprefix(url)))
            os.makedirs(target, exist_ok=True)
            for name in names:
                # gs:// lists a name twice if the network fails amid a list, which is then begun anew.
                gfile.copy(os.path.join(folder, name), os.path.join(target, *_parts(name)), overwrite=True)
    except tf.errors.OpError as error:
        raise ValueError(f"preset {url}: cannot be read: {error.message}") from error
    return copied


def _parts(path):
    """Returns the names in a path or URL; what stores call ".." must not lead out of the copy."""
    return [part.rstrip(":") for part in path.split("/") if part not in ("", ".", "..")]
