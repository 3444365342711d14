"""Lines of plain and packed files with their numbers and places, in bounded memory."""

import io
import typing
import zlib

import tensorflow as tf

from convnlp.data import stored
from convnlp.data.errors import SourceError

MAX_LINE_BYTES = 1 << 20  # longer lines are bad input; of them this much is kept


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
    return not stored.is_packed(path)


def read(path, offset=0, number=1):
    """Yields the lines of a file from one of them on.

    Args:
        path: string; packed where it ends in .gz or .zst. Local, or what `tf.io.gfile` reads.
        offset: int, where the first line begins; 0 for a packed file.
        number: int, the number of that line.

    Raises:
        SourceError: if the file cannot be read, with the line where that is.
    """
    try:
        with stored.open_stored(path) as packed, _unpacked(path, packed) as file:
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


def _unpacked(path, file):
    if is_seekable(path):
        return file
    return io.BufferedReader(stored.unpacked(path, file), stored.BUFFER_BYTES)
