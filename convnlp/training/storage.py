"""Files and directories, on a disk or behind a URL such as gs://, through tf.io.gfile.

An object store has only whole objects: an object appears when its writer closes it, cannot be appended to,
and directories are not renamed atomically. So a file is written under a temporary name and then renamed, and
a directory that must appear as a whole, such as a checkpoint, has a file that is written last.
"""

import contextlib
import hashlib
import json
import os
import re

import tensorflow as tf

gfile = tf.io.gfile
ERRORS = (OSError, tf.errors.OpError)  # raised by Python's files, and by tf.io.gfile
_CHUNK_BYTES = 1 << 24
_TRIES = 10
_OPERATION = re.compile(r"\{\{function_node [^}]*\}\} ?| \[Op:\w+\]( name: ?\S*)?")


def normal(path, name="workdir"):
    """Returns a path as a string, without "file://".

    Args:
        path: string or path-like object.
        name: string, the name of the argument for errors. Defaults to "workdir".

    Raises:
        ValueError: if the path is a URL of a file system that TensorFlow does not know, or a URL from which
            `pathlib` has removed a slash, which would become a folder called "gs:".
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
    """Returns the first line of an error's message, without the names of TensorFlow's operations.

    An error without a message, such as a time-out, is called by its class.
    """
    return (without_operations(str(error)).strip() or type(error).__name__).splitlines()[0]


def without_operations(message):
    """Returns a message of TensorFlow without the names of its operations, which mean nothing to a user."""
    return _OPERATION.sub("", message)


def is_remote(path):
    """Returns whether a path is a URL."""
    return "://" in os.fspath(path)


def join(directory, *names):
    """Returns the path of an entry in a directory."""
    return os.path.join(os.fspath(directory), *names)


def names(directory):
    """Returns the names in a directory, a sorted list; empty if there is no such directory."""
    try:
        found = _in_directory(gfile.listdir, os.fspath(directory))
    except tf.errors.NotFoundError:
        return []
    return sorted(name.rstrip("/") for name in found)


def _in_directory(do, directory):
    """Returns `do(directory)`; raises NotFoundError only if there is no such directory."""
    for _ in range(_TRIES):
        try:
            return do(directory)
        except tf.errors.NotFoundError:
            # So gs:// also reports that the network failed while it looked, which it tries only once.
            if not gfile.exists(directory):
                raise
    raise OSError(f"{directory} exists, but cannot be found")


def has(directory, name):
    """Returns whether a directory has an entry, by its listing.

    For some seconds, `gfile.exists` may still see in gs:// a file whose deletion was carried out but whose
    answer was lost.
    """
    return name in names(directory)


def size(path):
    """Returns the size of a file in bytes, or -1 if it does not exist."""
    try:
        return gfile.stat(path).length
    except tf.errors.NotFoundError:
        return -1


def read(path):
    """Returns the content of a file, as bytes."""
    with gfile.GFile(path, "rb") as file:
        return b"".join(_pieces(file))


def _pieces(file):
    """Yields the content of a file in pieces, without asking for its size: gs:// may return a cached one."""
    while True:
        piece = file.read(_CHUNK_BYTES)
        yield piece
        if len(piece) < _CHUNK_BYTES:
            return


def write(path, content, writer=""):
    """Writes bytes so that a reader sees either the old file or the new one, never a part.

    Args:
        path: str, also a URL.
        content: bytes.
        writer: str. A suffix that separates processes that write to the same path at the same time.

    Raises:
        tf.errors.OpError: if it cannot be written.
    """
    partial = join(os.path.dirname(path), f".{os.path.basename(path)}{writer}.partial")
    remove(partial)  # not every file system can overwrite it
    with gfile.GFile(partial, "wb") as file:
        file.write(content)
    rename(partial, path)


def read_json(path):
    """Returns the value of a JSON file; raises ValueError if it is damaged."""
    return json.loads(read(path))


def write_json(path, value, writer=""):
    """Writes a value as JSON, with sorted keys; the other arguments and errors are those of `write`."""
    write(os.fspath(path), (json.dumps(value, indent=2, sort_keys=True) + "\n").encode(), writer)


def rename(path, other):
    """Renames a file, or a directory on a disk; an existing file of that name is replaced atomically."""
    gfile.rename(path, other, overwrite=True)


def remove(path):
    """Deletes a file, if there is one."""
    with contextlib.suppress(tf.errors.NotFoundError):
        gfile.remove(path)


def move(directory, other):
    """Renames a directory; behind a URL, by copying its files one by one."""
    if is_remote(directory):
        copy(directory, other)
        remove_directory(directory)
    else:
        rename(directory, other)


def remove_directory(directory):
    """Deletes a directory and its content.

    Raises:
        tf.errors.OpError: if it does not exist, or something in it cannot be deleted.
    """
    _in_directory(gfile.rmtree, directory)


def copy(directory, other, last=None):
    """Copies a directory and its content; the entry `last` is copied last."""
    gfile.makedirs(other)
    for name in sorted(names(directory), key=lambda name: name == last):
        source, target = join(directory, name), join(other, name)
        if gfile.isdir(source):
            copy(source, target)
        else:
            gfile.copy(source, target, overwrite=True)


def fingerprint(path):
    """Returns the size and SHA-256 sum of a file, `{"bytes": size, "sha256": hexadecimal}`."""
    digest, length = hashlib.sha256(), 0
    with gfile.GFile(path, "rb") if is_remote(path) else open(path, "rb") as file:
        for piece in _pieces(file):
            digest.update(piece)
            length += len(piece)
    return {"bytes": length, "sha256": digest.hexdigest()}


class Appended:
    """A file that grows line by line.

    On a disk, each line is written at once. Behind a URL, lines wait for `flush`, which writes the whole
    object.

    Args:
        path: string.
        position: int or None. Size in bytes to which the existing file is cut; None keeps all of it.
    """

    def __init__(self, path, position=None):
        self._path = path
        self._lines = None
        if is_remote(path):
            content = read(path) if gfile.exists(path) else b""
            self._lines = bytearray(content[:position])
            self.position = len(self._lines)
            self._is_flushed = self.position == len(content)
        else:
            # Open for the whole run, until `close`. Unbuffered, since `close` would retry writing a buffer.
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115
            if position is not None:
                os.truncate(path, min(position, os.path.getsize(path)))
            self.position = os.path.getsize(path)

    def write(self, line):
        """Appends a string; raises OSError with the path if it cannot, as on a full disk."""
        data = line.encode()
        self.position += len(data)
        if self._lines is not None:
            self._lines += data
            self._is_flushed = False
            return
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            error.filename = self._path
            raise

    def flush(self):
        """Makes what was written outlive the process."""
        if self._lines is not None and not self._is_flushed:
            write(self._path, bytes(self._lines))
            self._is_flushed = True

    def close(self, flush=True):
        """Ends writing; behind a URL, without `flush`, what has not been flushed is lost."""
        if self._lines is None:
            self._file.close()
        elif flush:
            self.flush()
