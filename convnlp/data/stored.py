"""Stored files as bytes, local or remote, plain or packed by gzip or zstd."""

import gzip
import io

import tensorflow as tf

from convnlp.data.arrow import pyarrow

BUFFER_BYTES = 1 << 16
PART_BYTES = 1 << 13  # of a packed file, read at a time


def is_packed(path):
    """Whether the file is packed, so that reading cannot begin anywhere in it."""
    return path.endswith((".gz", ".zst"))


def unpacked(path, file):
    """The content of an open file: what `file` holds, unpacked where `path` says that it is packed.

    Raises:
        SourceError: if the file is packed by zstd and pyarrow, which unpacks it, is not installed.
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
    """The bytes of a file as they are stored: a binary file, of `tf.io.gfile` where `path` is a URL.

    Local files are not opened by `tf.io.gfile`, which takes ten times as long for each line.
    """
    return io.BufferedReader(_Remote(path), BUFFER_BYTES) if "://" in path else open(path, "rb", BUFFER_BYTES)


class _InParts:
    """A binary file that is read in parts of one size, whichever Python unpacks it.

    From 3.12 on gzip reads 128 KiB at a time. How far a file has been read decides in which order the records
    of several files come, and a run may be continued by another Python than the one that began it.
    """

    def __init__(self, file):
        self._file = file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def read(self, size=-1):
        return self._file.read(size if size < 0 else min(size, PART_BYTES))


class _Remote(io.RawIOBase):
    """A file of `tf.io.gfile` with the methods that a buffer asks for."""

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
