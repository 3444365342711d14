"""Stored files as bytes, local or remote, plain or packed by gzip."""

import io

import tensorflow as tf

BUFFER_BYTES = 1 << 16


def is_packed(path):
    """Whether the file is packed by gzip, so that reading cannot begin anywhere in it."""
    return path.endswith(".gz")


def open_stored(path):
    """The bytes of a file as they are stored: a binary file, of `tf.io.gfile` where `path` is a URL.

    Local files are not opened by `tf.io.gfile`, which takes ten times as long for each line.
    """
    return io.BufferedReader(_Remote(path), BUFFER_BYTES) if "://" in path else open(path, "rb", BUFFER_BYTES)


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
