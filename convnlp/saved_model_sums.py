"""Keeps the sums of a SavedModel's files in SHA256SUMS beside saved_model.pb, which TensorFlow ignores.

They reveal damage, and files that somebody has changed or added. They do not prove who made the model, since
whoever changes a file can write its sum too.
"""

import os
import re

from convnlp import sums

_FILES = re.compile(
    r"(saved_model\.(pb|pbtxt)|fingerprint\.pb|model\.tflite|(variables|assets|assets\.extra)/.+)"
)
_FOLDERS = ("variables", "assets", "assets.extra")


def files(directory):
    """Returns the sorted relative paths of a SavedModel's files that servers read; others are the user's."""
    found = [name for name in os.listdir(directory) if os.path.isfile(os.path.join(directory, name))]
    for top in _FOLDERS:
        for folder, _, names in os.walk(os.path.join(directory, top)):
            paths = (os.path.join(folder, name) for name in names)
            found += [os.path.relpath(path, directory).replace(os.sep, "/") for path in paths]
    return sorted(name for name in found if _FILES.fullmatch(name))


def write(directory):
    """Writes the sums of a SavedModel and returns the path of their file."""
    found = {name: sums.of_file(os.path.join(directory, name)) for name in files(directory)}
    return sums.write(directory, found)


def check(directory):
    """Compares the files of a SavedModel with their sums, before anything reads them.

    Args:
        directory: str or path.

    Returns:
        bool, whether there are sums; other exporters write none.

    Raises:
        ValueError: if a file differs, is missing or has no sum; the message names the first one.
    """
    try:
        with open(os.path.join(directory, sums.FILE), "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ValueError(f"{directory}: {sums.FILE} cannot be read ({error})") from error
    try:
        known = sums.parse(content)
    except ValueError as error:
        raise ValueError(f"{directory}: {error}") from error
    for name in sorted({*known, *files(directory)}):
        path = os.path.join(directory, name)
        if name not in known:
            problem = f"it has no sum in {sums.FILE}"
        elif not os.path.isfile(path):
            problem = f"it is missing, and {sums.FILE} has its sum"
        elif sums.of_file(path) != known[name]:
            problem = f"it is not the file that was exported: its sum differs from the one in {sums.FILE}"
        else:
            continue
        raise ValueError(f"{path}: {problem}")
    return True
