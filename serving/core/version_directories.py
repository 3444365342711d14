"""What lies in the directory of a model: the directories of its versions, and whether one has changed."""

import os
import re

_MAX_VERSION = 2**63 - 1  # in TF Serving, and in the messages that name versions


def version_directories(base_path):
    """Returns all versions on disk, as a dict of version to directory.

    Other files and directories are ignored. Of two names for the same version, such as 1 and 01, the shorter
    one counts. A directory that cannot be read has no versions.

    Args:
        base_path: str. The directory of a model.
    """
    try:
        names = os.listdir(base_path)
    except OSError:
        return {}
    found = {}
    for name in sorted(names, key=len, reverse=True):
        path = os.path.join(base_path, name)
        # isdir is false for what cannot be examined, such as a circular link.
        if re.fullmatch("[0-9]+", name) and int(name) <= _MAX_VERSION and os.path.isdir(path):
            found[int(name)] = path
    return found


def fingerprint(path):
    """Returns the content of a version's directory, a tuple: names, sizes and times of its files."""
    found = []
    for folder, _, names in os.walk(path):
        for name in sorted(names):
            try:
                stat = os.stat(os.path.join(folder, name))
            except OSError:
                continue
            found.append((folder, name, stat.st_size, stat.st_mtime_ns))
    return tuple(sorted(found))
