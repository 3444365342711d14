"""Lines of plain and gzipped files with their numbers and places, in bounded memory."""

import gzip
import io
import typing
import zlib

import tensorflow as tf

from convnlp.data.errors import SourceError

MAX_LINE_BYTES = 1 << 20  # longer lines are bad input; of them this much is kept
_BUFFER_BYTES = 1 << 16


class Line(typing.NamedTuple):
    """A line as it stands in its file.

    Attributes:
        number: int from 1.
        offset: int, where it begins, in the bytes of the unpacked file.
        data: bytes, its end included; at most `MAX_LINE_BYTES`.
        size: int, its bytes in the file.
    """

    number: int
    offset: int
    data: bytes
    size: int


def is_seekable(path):
    """Whether reading can begin anywhere in the file: not in what is packed."""
    return not path.endswith(".gz")


def read(path, offset=0, number=1):
    """Yields the lines of a file from one of them on.

    Args:
        path: string; packed by gzip where it ends in .gz. Local, or what `tf.io.gfile` reads.
        offset: int, where the first line begins; 0 for a packed file.
        number: int, the number of that line.

    Raises:
        SourceError: if the file cannot be read, with the line where that is.
    """
    try:
        with _open(path) as stored, _unpacked(path, stored) as file:
            if offset:
                file.seek(offset)
            while line := file.readline(MAX_LINE_BYTES):
                size, end = len(line), line
                while not end.endswith(b"\n") and (end := file.readline(MAX_LINE_BYTES)):
                    size += len(end)
                yield Line(number, offset, line, size)
                number, offset = number + 1, offset + size
    except (OSError, EOFError, zlib.error, tf.errors.OpError) as error:
        raise SourceError(f"{path}, line {number}: cannot be read: {error}") from error


def _open(path):
    if "://" in path:
        return io.BufferedReader(_Remote(path), _BUFFER_BYTES)
    return open(path, "rb", _BUFFER_BYTES)


def _unpacked(path, stored):
    return stored if is_seekable(path) else io.BufferedReader(gzip.GzipFile(fileobj=stored), _BUFFER_BYTES)


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
