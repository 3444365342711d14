"""Tells presets apart by their weights."""

import hashlib
import pathlib


def sum_of_weights(directory):
    """Returns a hash of the weights of a preset: 16 hexadecimal digits."""
    paths = sorted(pathlib.Path(directory).glob("model*.h5"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]
