"""Lines of plain and compressed files with their numbers and offsets, in bounded memory."""

import io
import typing
import zlib

import tensorflow as tf

from convnlp.data import files, stored
from convnlp.data.errors import SourceError

MAX_LINE_BYTES = 1 << 20  # longer lines are bad input, of which only this much is kept
_UNREADABLE = (OSError, EOFError, zlib.error, tf.errors.OpError)


class Line(typing.NamedTuple):
    """A line as stored in its file.

    Attributes:
        number: int from 1.
        offset: int, the byte at which it begins in the decompressed file.
        data: bytes, including the line end; at most `MAX_LINE_BYTES`.
        size: int, its full size in bytes.
    """

    number: int
    offset: int
    data: bytes
    size: int


def is_seekable(path):
    """Returns whether reading can start anywhere in the file: not if it is compressed."""
    return not stored.is_packed(path)


def read(path, offset=0, number=1):
    """Yields the `Line`s of a file, starting from a given one.

    Args:
        path: string, a local path or a URL of `tf.io.gfile`; compressed if it ends in .gz or .zst.
        offset: int, the byte at which the first line begins; 0 for a compressed file.
        number: int, the number of that line.

    Raises:
        SourceError: if the file cannot be read; names the line.
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
    except _UNREADABLE as error:
        raise SourceError(f"{path}, line {number}: cannot be read: {error}") from error


def check(path, may_be_a_page):
    """Raises `SourceError` if the first bytes of a file are not those of UTF-8 text, or cannot be read.

    UTF-16, which other programs read, is refused: no worker could start in the middle of such a file.
    """
    try:
        with stored.open_stored(path) as packed, _unpacked(path, packed) as file:
            start = file.peek(files.START_BYTES)
    except _UNREADABLE as error:
        raise SourceError(f"{path}, line 1: cannot be read: {error}") from error
    files.check_is_text(path, start, may_be_a_page)
    if files.utf_16(start):
        raise SourceError(f"{path}: the file is UTF-16; save it as UTF-8: iconv -f UTF-16 -t UTF-8 OLD > NEW")


def _unpacked(path, file):
    if is_seekable(path):
        return file
    return io.BufferedReader(stored.unpacked(path, file), stored.BUFFER_BYTES)
