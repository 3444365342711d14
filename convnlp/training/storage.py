"""Files and directories by path, on a disk or behind a URL such as gs://, all through tf.io.gfile.

An object store knows whole objects: one appears when its writer closes it, nothing is appended to it, and a
directory is not renamed at once. So a file is written under another name and then renamed, and a directory
that has to appear whole, as a checkpoint, has a file that comes last.
"""

import atexit
import functools
import hashlib
import json
import os
import re
import shutil
import tempfile

import tensorflow as tf

gfile = tf.io.gfile
ERRORS = (OSError, tf.errors.OpError)  # of Python's files, and of tf.io.gfile
_CHUNK_BYTES = 1 << 24
_OPERATION = re.compile(r"\{\{function_node [^}]*\}\} ?| \[Op:\w+\]( name: ?\S*)?")


def normal(path, name="workdir"):
    """A path as a string, "file://" taken off.

    Args:
        path: string or path-like object.
        name: string, the argument to name in an error.

    Raises:
        ValueError: for a URL of a file system that TensorFlow does not know, or one that `pathlib` has taken
            a slash from, which would become a folder called "gs:".
    """
    path = os.fspath(path)
    known = [scheme for scheme in gfile.get_registered_schemes() if scheme]
    scheme, separator, rest = path.partition(":/")
    if not separator or not re.fullmatch(r"[a-z][a-z0-9+.-]+", scheme):
        return path
    if not rest.startswith("/") or scheme not in known:
        schemes = ", ".join(f"{each}://" for each in known)
        raise ValueError(
            f"`{name}` must be a local path or begin with one of {schemes}. Received: {name}={path!r}"
        )
    return rest[1:] if scheme == "file" else path


def reason(error):
    """The first line of what an error says, without the names of TensorFlow's operations that met it."""
    return without_operations(str(error)).splitlines()[0]


def without_operations(message):
    """A message of TensorFlow's without what it says of the operation: that is none of a user's."""
    return _OPERATION.sub("", message)


def is_remote(path):
    """Whether a path is a URL."""
    return "://" in os.fspath(path)


def join(directory, *names):
    """The path of an entry of a directory."""
    return os.path.join(os.fspath(directory), *names)


def names(directory):
    """The names in a directory, sorted; none if there is no such directory."""
    try:
        return sorted(name.rstrip("/") for name in gfile.listdir(os.fspath(directory)))
    except tf.errors.NotFoundError:
        return []


def size(path):
    """Bytes of a file; -1 if there is none."""
    try:
        return gfile.stat(path).length
    except tf.errors.NotFoundError:
        return -1


def read(path):
    """The content of a file, as bytes."""
    with gfile.GFile(path, "rb") as file:
        return b"".join(_pieces(file))


def _pieces(file):
    """The content of a file in pieces; its size is not asked for, which gs:// may answer from a cache."""
    while True:
        piece = file.read(_CHUNK_BYTES)
        yield piece
        if len(piece) < _CHUNK_BYTES:
            return


def write(path, content, writer=""):
    """Writes bytes so that a reader sees the old file or the new one, never a part.

    `writer` keeps apart those that write to the same path at the same time.
    """
    partial = join(os.path.dirname(path), f".{os.path.basename(path)}{writer}.partial")
    if gfile.exists(partial):  # to which not every file system writes anew
        gfile.remove(partial)
    with gfile.GFile(partial, "wb") as file:
        file.write(content)
    rename(partial, path)


def read_json(path):
    """The value of a JSON file; raises ValueError for one that is damaged."""
    return json.loads(read(path))


def write_json(path, value, writer=""):
    """Writes JSON as `write` does."""
    write(os.fspath(path), (json.dumps(value, indent=2, sort_keys=True) + "\n").encode(), writer)


def rename(path, other):
    """Gives a file, or a directory on a disk, another name; a file of that name is replaced at once."""
    gfile.rename(path, other, overwrite=True)


def move(directory, other):
    """Gives a directory another name; elsewhere than on a disk its files one by one."""
    if is_remote(directory):
        copy(directory, other)
        gfile.rmtree(directory)
    else:
        rename(directory, other)


def copy(directory, other, last=None):
    """Copies a directory with all that is in it; of the names in it `last` comes at the end."""
    gfile.makedirs(other)
    for name in sorted(names(directory), key=lambda name: name == last):
        source, target = join(directory, name), join(other, name)
        if gfile.isdir(source):
            copy(source, target)
        else:
            gfile.copy(source, target, overwrite=True)


@functools.cache
def local(directory):
    """The path of a directory on this machine: its own, or that of a copy that lasts as long as the process.

    What is not a directory, such as a handle "hf://..." of keras_nlp, is returned as it is.
    """
    scheme = os.fspath(directory).partition("://")[0]
    if not is_remote(directory) or scheme not in gfile.get_registered_schemes() or not gfile.isdir(directory):
        return directory
    copied = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, copied, ignore_errors=True)
    copy(directory, copied)
    return copied


def fingerprint(path):
    """`{"bytes": size, "sha256": hexadecimal}` of a file."""
    digest, length = hashlib.sha256(), 0
    with gfile.GFile(path, "rb") if is_remote(path) else open(path, "rb") as file:
        for piece in _pieces(file):
            digest.update(piece)
            length += len(piece)
    return {"bytes": length, "sha256": digest.hexdigest()}


class Appended:
    """A file that grows line by line.

    On a disk each line is there at once; elsewhere a line waits for `flush`, which writes the whole object.

    Args:
        path: string.
        position: int or None. What is there after so many bytes is cut off; None keeps all.
    """

    def __init__(self, path, position=None):
        self._path = path
        self._lines = None
        if is_remote(path):
            content = read(path) if gfile.exists(path) else b""
            self._lines = bytearray(content[:position])
            self.position = len(self._lines)
        else:
            # As long as the run, closed by `close`. Without a buffer, whose rest `close` would try once more.
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115
            if position is not None:
                os.truncate(path, min(position, os.path.getsize(path)))
            self.position = os.path.getsize(path)

    def write(self, line):
        """Appends a string; raises OSError with the path where that cannot be done, as on a full disk."""
        data = line.encode()
        self.position += len(data)
        if self._lines is not None:
            self._lines += data
            return
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            error.filename = self._path
            raise

    def flush(self):
        """Makes what was written outlive the process."""
        if self._lines is not None:
            write(self._path, bytes(self._lines))

    def close(self):
        self.flush()
        if self._lines is None:
            self._file.close()
