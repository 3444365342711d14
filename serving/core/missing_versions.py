"""Says which versions of a model are missing, why there are none, and what to do."""

import os

from convnlp.serving.core.version_directories import version_directories


def missing_versions(config):
    """Returns what is wanted and not on disk, and what to do, a str; "" if nothing is missing.

    Args:
        config: `ModelConfig`.
    """
    on_disk = version_directories(config.base_path)
    if absent := [version for version in config.versions if version not in on_disk]:
        return f"there is none of the versions {absent} in {config.base_path}"
    return "" if on_disk else _why_empty(config.base_path)


def _why_empty(path):
    try:
        names = sorted(os.listdir(path))
    except FileNotFoundError:
        return f"there is no directory {path}"
    except NotADirectoryError:
        return f"{path} is a file, not a directory with versions"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    none = f"there is no version directory (1, 2, ...) in {path}"
    if "saved_model.pb" in names:
        folder, name = os.path.split(os.path.normpath(path))
        if name.isdecimal():
            return f"{none}; it is a version itself: give {folder}"
        return f"{none}; it is a SavedModel itself: move it to {path}/1"
    if {"config.json", "model.weights.h5"}.issubset(names):
        return f"{none}; it is a preset: export it"
    others = (os.path.join(path, name) for name in names)
    there = next((other for other in others if version_directories(other)), None)
    return f"{none}; there is one in {there}" if there else none
