"""The lines of standard input, as texts."""

import codecs
import sys

from convnlp.data import SourceError


def lines():
    r"""Yields the lines of standard input, without their ends and a byte-order mark; only "\n" ends a line.

    Yields:
        str.

    Raises:
        SourceError: if a line is not UTF-8; names the line.
    """
    for number, line in enumerate(sys.stdin.buffer, 1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            yield line.rstrip(b"\r\n").decode("utf-8")
        except UnicodeDecodeError as error:
            raise SourceError(f"standard input, line {number}: not UTF-8 (byte {error.start + 1})") from error
