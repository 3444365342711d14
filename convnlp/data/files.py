"""Records of JSON-lines and text files as a tf.data source whose whole state is one number.

A stream of records is cut into blocks of about `BLOCK_BYTES`. tf.data holds the number of the next block; the
open files stay in Python, and are opened again and skipped where an iterator is restored from a checkpoint.
One Python call reads and decodes a whole block, so that its cost does not depend on the number of records.
"""

import gzip
import heapq
import itertools
import typing
import zlib

import numpy as np
import tensorflow as tf

from convnlp.data import schema as schemas
from convnlp.data.errors import SourceError

BLOCK_BYTES = (
    1 << 17
)  # about 30,000 tokens: small beside a shuffle buffer, large beside the cost of a Python call
DOCUMENT_BYTES = 1 << 20  # where text without blank lines is cut, at the next end of a line
OPEN_FILES = 64  # files read side by side; more are read in groups
IDLE_STREAMS = 4  # positions kept for iterators that may still come back


class Record(typing.NamedTuple):
    """One record as it stands in its file, with the place to name in an error."""

    path: str
    line: int
    data: bytes

    def error(self, reason):
        """The `SourceError` that says what is wrong with this record."""
        return SourceError(f"{self.path}, line {self.line}: {reason}")


class _File:
    """Iterates over the records of one file and knows which part of the stored bytes it has read."""

    def __init__(self, path, records):
        self.progress = 0.0
        self._path, self._records = path, records

    def __iter__(self):
        return self._records(self._path, self._lines())

    def _lines(self):
        number = 0
        try:
            size = tf.io.gfile.stat(self._path).length
            open_file = tf.io.gfile.GFile if "://" in self._path else open  # which is ten times as fast
            with open_file(self._path, "rb") as file:
                lines = gzip.GzipFile(fileobj=file) if self._path.endswith(".gz") else file
                for number, line in enumerate(lines, 1):
                    yield number, line
                    self.progress = file.tell() / size
        except (OSError, EOFError, zlib.error, tf.errors.OpError) as error:
            raise SourceError(f"{self._path}, line {number + 1}: cannot be read: {error}") from error


def json_records(path, lines):
    """One record a line; blank lines are skipped."""
    for number, line in lines:
        line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if not line.isspace():
            yield Record(path, number, line)


def text_records(path, lines):
    """Documents separated by blank lines; one of more than `DOCUMENT_BYTES` is cut at the end of a line."""
    document, first, size = [], 1, 0
    for number, line in lines:
        line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        blank = not line.strip()
        if not blank:
            first = first if document else number
            document.append(line)
            size += len(line)
        if document and (blank or size >= DOCUMENT_BYTES):
            yield Record(path, first, b"".join(document).strip())
            document, size = [], 0
    if document:
        yield Record(path, first, b"".join(document).strip())


FORMATS = {
    "jsonl": (json_records, schemas.parse_json),
    "text": (text_records, schemas.parse_text),
}


def find(source, pattern):
    """Paths that match a glob, sorted; raises `SourceError` where there are none."""
    paths = sorted(path for path in tf.io.gfile.glob(pattern) if not tf.io.gfile.isdir(path))
    if not paths:
        raise SourceError(f"{source}: no such file: {pattern}")
    return paths


def _sliced(path, records, split):
    """The records of `split`'s slice of one file, and the file."""
    file = _File(path, records)
    if split.is_whole:
        return file, iter(file)
    total = sum(1 for _ in _File(path, records))
    return file, itertools.islice(file, *split.bounds(total))


def _mixed(paths, records, split):
    """Records of several files: always the next of the file of which the smallest part has been read.

    So files of very different sizes are spread evenly over the whole stream.
    """
    for group in range(0, len(paths), OPEN_FILES):
        opened = [_sliced(path, records, split) for path in paths[group : group + OPEN_FILES]]
        waiting = [(0.0, order) for order in range(len(opened))]
        while waiting:
            order = waiting[0][1]
            file, stream = opened[order]
            record = next(stream, None)
            if record is None:
                heapq.heappop(waiting)
            else:
                yield record
                heapq.heapreplace(waiting, (file.progress, order))


class Stream:
    """Records of files, for one worker.

    Args:
        paths: list of strings.
        kind: string, a key of `FORMATS`.
        schema: `Schema`, what to read of each record.
        split: `Split`; its slice is taken of every file.
        num_shards: int >= 1, number of workers.
        shard_index: int, this worker; it gets every `num_shards`-th record.

    Raises:
        SourceError: if a file is empty, or its first record cannot be used.
    """

    def __init__(self, paths, kind, schema, split, num_shards=1, shard_index=0):
        self._paths, self._split, self._schema = paths, split, schema
        self._records, self._parse = FORMATS[kind]
        self._shard = shard_index, None, num_shards
        self._idle = []  # (number of the next block, open stream), the latest last
        for path in paths:
            record = next(iter(_File(path, self._records)), None)
            if record is None:
                raise SourceError(f"{path}: the file is empty")
            self._values(record)

    def __iter__(self):
        """Yields the values of `schema`, record by record."""
        return map(self._values, self._open())

    def _open(self):
        return itertools.islice(_mixed(self._paths, self._records, self._split), *self._shard)

    def _values(self, record):
        try:
            return self._schema.values(self._parse(record.data))
        except ValueError as error:
            raise record.error(error) from error

    def block(self, number):
        """Values of the records of block `number`, a list with one row a record; empty after the end."""
        stream = self._stream_at(number)
        records = _next_block(stream)
        if records:
            self._idle = [*self._idle[1 - IDLE_STREAMS :], (number + 1, stream)]
        return [self._values(record) for record in records]

    def _stream_at(self, number):
        for i, (position, stream) in enumerate(self._idle):
            if position == number:
                del self._idle[i]
                return stream
        stream = self._open()
        for _ in range(number):
            _next_block(stream)
        return stream

    def dataset(self):
        """A tf.data.Dataset of blocks: {field: string [n]} and int64 "label" [n] where the schema has one."""
        keys = self._schema.keys
        types = [tf.string] * len(self._schema.texts) + [tf.int64] * bool(self._schema.label)

        def read(number):
            columns = list(zip(*self.block(int(number)), strict=True)) or [()] * len(types)
            # NumPy's own string type would cut trailing zero bytes, so texts travel as objects.
            return [
                np.array(column, "int64" if type == tf.int64 else object)
                for column, type in zip(columns, types, strict=True)
            ]

        def block(number):
            values = tf.numpy_function(read, [number], types)
            return {key: tf.ensure_shape(value, [None]) for key, value in zip(keys, values, strict=True)}

        def is_filled(columns):
            return tf.size(columns[keys[0]]) > 0

        options = tf.data.Options()
        # The block number is the only state, so a checkpoint may pass over the Python function.
        options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
        return tf.data.Dataset.counter(dtype=tf.int64).map(block).take_while(is_filled).with_options(options)


def _next_block(stream):
    records, size = [], 0
    for record in stream:
        records.append(record)
        size += len(record.data)
        if size >= BLOCK_BYTES:
            break
    return records
