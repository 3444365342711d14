"""The texts of standard input and of the command line."""

import codecs
import sys

from convnlp.data import SourceError


def lines():
    r"""Yields the lines of standard input, without their ends and a byte-order mark; only "\n" ends a line.

    There are none if it is closed.

    Yields:
        str.

    Raises:
        SourceError: if a line is not UTF-8; names the line.
    """
    if sys.stdin is None:  # closed from the start
        return
    if is_terminal():
        print("reading texts from the terminal, one per line; Ctrl-D ends them", file=sys.stderr)
    for number, line in enumerate(sys.stdin.buffer, 1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            yield line.rstrip(b"\r\n").decode("utf-8")
        except UnicodeDecodeError as error:
            raise SourceError(f"standard input, line {number}: not UTF-8 (byte {error.start + 1})") from error


def is_terminal():
    """Whether somebody may be typing the texts."""
    return sys.stdin is not None and sys.stdin.isatty()


def checked(name, texts):
    """Returns the texts of a flag; raises ValueError if one is not UTF-8.

    Args:
        name: str, the flag.
        texts: list of str, in which a byte that is not UTF-8 is half of a surrogate pair.
    """
    for text in texts:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(f"`{name}` must be UTF-8. Received: {name}={text!r}") from error
    return texts
