"""Writes and checks the sums of a preset's files, in SHA256SUMS."""

import os
import re
import warnings

from convnlp import sums as sums_format

FILE = sums_format.FILE
_CARD = "README.md"
_NOT_THE_MODEL = (_CARD, "experiment.json", "metadata.json")  # no model is built from them: they may be added
_TOP_LEVEL = re.compile(
    r"(config|task|tokenizer|preprocessor|metadata|experiment)\.json|README\.md|model\.weights\.json|.*\.weights\.h5"
)
_ASSETS = "assets"


def files(directory):
    """Returns the files of a preset that have a sum, sorted: those that the model is made of, and its card.

    Args:
        directory: str. Other files in it belong to the user.

    Returns:
        List of str, relative to it, with "/" between folders.
    """
    found = [
        name
        for name in os.listdir(directory)
        if _TOP_LEVEL.fullmatch(name) and os.path.isfile(os.path.join(directory, name))
    ]
    for folder, _, names in os.walk(os.path.join(directory, _ASSETS)):
        paths = (os.path.join(folder, name) for name in names)
        found += [
            os.path.relpath(path, directory).replace(os.sep, "/") for path in paths if os.path.isfile(path)
        ]
    return sorted(found)


def of(directory):
    """Returns the sums of a preset's files as they are, a dict, name as of `files` -> sum."""
    return {name: sums_format.of_file(os.path.join(directory, name)) for name in files(directory)}


def write(directory, changed=None):
    """Writes the sums of a preset; call it without `changed` after you have edited a file by hand.

    Args:
        directory: str.
        changed: callable str -> bool: the files whose sums to update; the others are kept. Default: all.

    Returns:
        str, the path of the file.
    """
    is_there = os.path.exists(os.path.join(directory, FILE))
    old = _read(directory) if changed is not None and is_there else {}
    sums = {
        name: old[name]
        if name in old and not changed(name)
        else sums_format.of_file(os.path.join(directory, name))
        for name in files(directory)
    }
    return sums_format.write(directory, sums)


def check(directory, wanted=lambda name: True):
    """Compares the files of a preset with their sums; presets older than the sums have none.

    Without sums, a file that is a link out of the directory is refused: a malicious preset could otherwise
    make its user's own files be read, and packed into what they share. With sums, this cannot happen: the
    author of the preset cannot know the sum of a file that they do not know.

    Args:
        directory: str.
        wanted: callable str -> bool: the files that are to be read.

    Raises:
        ValueError: if a file differs, is missing, or has no sum although the model is built from it; the
            message names the first one. An edited model card only causes a warning: nothing is computed
            from it.
    """
    if not os.path.lexists(os.path.join(directory, FILE)):
        _check_links(directory)
        return
    sums, present = _read(directory), files(directory)
    for name in sorted({*sums, *present}):
        if not wanted(name):
            continue
        if name not in sums:
            problem = None if name in _NOT_THE_MODEL else f"{name} has no sum in {FILE}"
        elif name not in present:
            problem = None if name == _CARD else f"{name} is missing, and {FILE} has its sum"
        elif sums_format.of_file(os.path.join(directory, name)) != sums[name]:
            problem = f"{name} is not the file that was saved: its sum differs from the one in {FILE}"
        else:
            continue
        if problem is None:
            continue
        advice = _advice(directory)
        if name == _CARD:
            warnings.warn(f"preset {directory}: {problem}. {advice}", stacklevel=2)
        else:
            raise ValueError(f"preset {directory}: {problem}. {advice}")


def _check_links(directory):
    inside = os.path.join(os.path.realpath(directory), "")
    for name in files(directory):
        path = os.path.realpath(os.path.join(directory, name))
        if not path.startswith(inside):
            problem = f"{name} is a link out of it, and there is no {FILE}"
            raise ValueError(f"preset {directory}: {problem}. {_advice(directory)}")


def _advice(directory):
    return f"After a change of your own: convnlp.models.checksums.write({str(directory)!r})"


def _read(directory):
    """Returns the sums in the file as {name: sum}."""
    try:
        with open(os.path.join(directory, FILE), "rb") as file:
            content = file.read()
    except OSError as error:
        raise ValueError(f"preset {directory}: {FILE} cannot be read ({error})") from error
    try:
        return sums_format.parse(content)
    except ValueError as error:
        raise ValueError(f"preset {directory}: {error}") from error
