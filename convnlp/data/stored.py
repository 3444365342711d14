"""Reads stored files as bytes: local or remote, plain or compressed by gzip or zstd."""

import gzip
import io

import tensorflow as tf

from convnlp.data.arrow import pyarrow

BUFFER_BYTES = 1 << 16
PART_BYTES = 1 << 13  # of a compressed file, read at a time


def is_packed(path):
    """Returns whether the file is compressed, so that reading cannot start in the middle of it."""
    return path.endswith((".gz", ".zst"))


def unpacked(path, file):
    """Returns the content of an open file, a binary file; decompresses it if `path` ends in .gz or .zst.

    Raises:
        SourceError: if the file ends in .zst and pyarrow, which decompresses it, is not installed.
    """
    if path.endswith(".gz"):
        return gzip.GzipFile(fileobj=_InParts(file))
    if path.endswith(".zst"):
        arrow = pyarrow(path)
        return io.BufferedReader(
            arrow.CompressedInputStream(arrow.PythonFile(file, "r"), "zstd"), BUFFER_BYTES
        )
    return file


def open_stored(path):
    """Opens a file as stored, in binary mode; by `tf.io.gfile` if `path` is a URL.

    Local files are opened without `tf.io.gfile`, which takes ten times as long per line.
    """
    return io.BufferedReader(_Remote(path), BUFFER_BYTES) if "://" in path else open(path, "rb", BUFFER_BYTES)


class _InParts:
    """A binary file that is read in parts of the same size by every version of Python.

    From Python 3.12 on, gzip reads 128 KiB at a time. The order in which records of several files are mixed
    depends on how far each file has been read, and a run may be resumed by another version of Python.
    """

    def __init__(self, file):
        self._file = file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def read(self, size=-1):
        return self._file.read(size if size < 0 else min(size, PART_BYTES))


class _Remote(io.RawIOBase):
    """A file of `tf.io.gfile` with the methods that `io.BufferedReader` needs."""

    def __init__(self, path):
        self._file = tf.io.gfile.GFile(path, "rb")

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=io.SEEK_SET):
        self._file.seek(offset, whence)
        return self._file.tell()

    def tell(self):
        return self._file.tell()

    def readinto(self, buffer):
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self):
        if not self.closed:
            self._file.close()
        super().close()
