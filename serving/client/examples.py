"""The examples that a command line names: texts, or the lines of a file."""

import codecs
import hashlib
import itertools
import json
import os

from convnlp.serving.client.http_exchange import from_base64


class Texts:
    """Texts from the command line.

    Args:
        texts: list of str.
    """

    def __init__(self, texts):
        self._texts = texts
        self.identity = {"--text": hashlib.sha256(json.dumps(texts).encode()).hexdigest()}

    def __len__(self):
        return len(self._texts)

    def place(self, index):
        """Returns where the example of this index is, for the beginning of a message."""
        return f"--text number {index + 1}: " if len(self._texts) > 1 else ""

    def starting_at(self, index):
        """Yields the examples from an index on.

        Raises:
            ValueError: at the first example that is not UTF-8.
        """
        for text in self._texts[index:]:
            yield os.fsencode(text).decode()


class Lines:
    """The lines of a file: texts, or JSON if its name ends in .jsonl.

    Args:
        path: str.

    Attributes:
        identity: dict of a flag to what identifies its value; None if the file cannot be read twice, because
            it is a pipe or a terminal.

    Raises:
        OSError: if the file cannot be read.
    """

    def __init__(self, path):
        self._path = path
        self._is_json = path.endswith(".jsonl")
        self.identity = None
        if os.path.isfile(path):
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            self.identity = {"--input": f"{digest}, {'JSON' if self._is_json else 'text'}"}

    def __len__(self):
        if self.identity is None:
            return 0
        with open(self._path, "rb") as file:
            return sum(1 for _ in file)

    def place(self, index):
        """Returns where the example of this index is, for the beginning of a message."""
        return f"{self._path}:{index + 1}: "

    def starting_at(self, index):
        """Yields the examples from an index on.

        Raises:
            ValueError: at the first example that is not UTF-8 or not JSON.
        """
        with open(self._path, "rb") as file:
            for number, line in itertools.islice(enumerate(file), index, None):
                line = line if number else line.removeprefix(codecs.BOM_UTF8)
                text = line.decode().rstrip("\r\n")
                yield _parsed(text) if self._is_json else text


def _parsed(text):
    try:  # bytes have the form that they have in REST, so that both clients can send them
        return json.loads(text, object_hook=from_base64)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def batches(examples, size):
    """Yields lists of `size` examples; the last one may be shorter.

    If the examples raise an exception, the examples before it are yielded first.
    """
    batch, failure = [], None
    examples = iter(examples)
    while failure is None:
        try:
            batch.append(next(examples))
        except StopIteration:
            break
        except Exception as error:
            failure = error
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
    if failure is not None:
        raise failure
