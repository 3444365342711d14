"""What a fuzzer needs of a reader: seeds, and what may come of any other bytes."""

import abc
import contextlib

MOST_CHARACTERS = 2000  # of an error: a message that repeats its input is none


class Reader(abc.ABC):
    """Reads bytes that anybody may have written, as the library would.

    Args:
        folder: pathlib.Path, an empty directory of its own.

    Attributes:
        seeds: list of bytes that it can read, from which a fuzzer starts.
    """

    def __init__(self, folder):
        self.folder = folder
        self.seeds = []

    @abc.abstractmethod
    def read(self, data):
        """Reads them.

        Args:
            data: bytes.

        Returns:
            A short string that says what came of it.

        Raises:
            Exception: if it is anything but an answer or a documented error.
        """


@contextlib.contextmanager
def documented(*errors):
    """Around what reads: lets pass errors of these classes with one line that is not long."""
    try:
        yield
    except errors as error:
        message = str(error)
        if "\n" in message or not 0 < len(message) <= MOST_CHARACTERS:
            raise AssertionError(f"not one short line: {message[:MOST_CHARACTERS]!r}") from error
