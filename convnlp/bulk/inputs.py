"""Inputs of a bulk prediction, cut into shards: the units that are predicted, written and kept on a restart.

| source | an example is |
| --- | --- |
| `jsonl:GLOB` | a line, plain, .gz or .zst, with a JSON object |
| `lines:GLOB` | a line of UTF-8 text, plain, .gz or .zst, in the field "text" |
| `csv:GLOB`, `tsv:GLOB`, `parquet:GLOB` | a row of a table |
| `text:GLOB` | a document, separated from the next by a blank line, in the field "text" |
| `pydocs` | a document of the installed Python, fields "text" and "label" |
| `tfds:NAME` | an example of a prepared TFDS data set |

How an input is cut depends only on the files and the shard size, so that a second run finds the shards of the
first.

Before the run, a file is refused if its first bytes show that it is something else, or if none of the first
`CHECKED_LINES` lines of JSON can be used: that is no bad line, but the wrong file or field.
"""

import functools
import itertools
import typing
from math import isfinite

import tensorflow as tf

from convnlp.bulk import lines
from convnlp.data import files, pydocs, tfds_source
from convnlp.data.errors import SourceError
from convnlp.data.formats import FORMATS, text
from convnlp.data.formats.delimited import Delimited
from convnlp.data.records import named, parse_json, parse_text
from convnlp.data.schema import Schema

TABLES = ("csv", "tsv", "parquet")
KINDS = ("jsonl", "lines", *TABLES, "text", "pydocs", "tfds")
_FIELDS = {"lines": ("text",), "text": ("text",), "pydocs": ("text", "label")}  # of all their examples
SHARD_BYTES = 1 << 24  # a shard with fewer examples ends here, which bounds the memory of a worker
CHECKED_LINES = 100
# A cell that is not UTF-8 makes its row bad; it does not end the run.
_FORMATS = FORMATS | {
    "csv": Delimited(",", errors="surrogateescape"),
    "tsv": Delimited("\t", errors="surrogateescape"),
}


class Record(typing.NamedTuple):
    """An example before it is parsed.

    Attributes:
        file: string, its file, or the name and split of its data set.
        line: int from 1, its (first) line in the file, or its number in the data set.
        size: int, its size as stored, in bytes.
        data: as stored: bytes, the data that a table's format parses, or a dict from TFDS.
        error: string, why it cannot be used; "" if no reason is known yet.
    """

    file: str
    line: int
    size: int
    data: object
    error: str = ""


class Part(typing.NamedTuple):
    """What a worker reads in one go: a shard, or a whole file if reading cannot start in the middle of it.

    Attributes:
        file: int, index of the file in the input.
        shard: int, index of the first shard in the file.
        offset: int, where it begins: a byte, or the index of an example.
        line: int, number of its first line.
        num_shards: int, number of shards; None for all to the end of the file.
    """

    file: int
    shard: int = 0
    offset: int = 0
    line: int = 1
    num_shards: int | None = None


def open_input(source, split="train", shard_size=10_000, data_dir=None, fields=()):
    """Opens the input that a string names.

    Args:
        source: string, see above.
        split: string, a split of a TFDS data set, optionally with a slice. Default "train".
        shard_size: int >= 1, examples per shard; fewer if they exceed 16 MiB. Default 10,000.
        data_dir: string, the data directory of TFDS. Default None: its own.
        fields: tuple of strings that each example must have. In JSON lines, whose examples may differ, one
            of the first in each file must have them. Default none.

    Returns:
        A `FileInput`, `TableInput` or `TFDSInput`.

    Raises:
        SourceError: if there is no such input, it lacks a field, or a file is not what it is read as.
    """
    kind, _, name = source.partition(":")
    if kind not in KINDS or (not name and kind != "pydocs"):
        raise SourceError(
            "`input` must be 'jsonl:GLOB', 'lines:GLOB', 'csv:GLOB', 'tsv:GLOB', 'parquet:GLOB', "
            f"'text:GLOB', 'pydocs' or 'tfds:NAME'. Received: input={source!r}"
        )
    if kind == "tfds":
        _require(source, fields, sorted(tfds_source.builder(name, data_dir).info.features))
        return TFDSInput(name, split, shard_size, data_dir)
    if split != "train":
        raise SourceError(
            f"`split` must be 'train', except for tfds:NAME. Received: split={split!r}, input={source!r}"
        )
    if kind in _FIELDS:
        _require(source, fields, _FIELDS[kind])
    if kind == "pydocs":
        kind, name = "jsonl", pydocs.path(name)
    paths = files.find(source, name)
    if kind not in TABLES:
        found = FileInput(paths, kind, shard_size)
        files.of_each(functools.partial(found.check, schema=Schema(tuple(fields))), paths)
        return found
    for path in paths:
        for asked in (fields, None):  # the header shows missing columns; all columns go into the answers
            next(iter(files.File(path, _FORMATS[kind], asked)), None)
    return TableInput(paths, kind, shard_size)


def _require(source, fields, available):
    for field in fields:
        if field not in available:
            raise SourceError(f"{source}: no field {field!r} (available: {named(available)})")


class _Files:
    """Files of one kind.

    Args:
        paths: list of strings.
        kind: string, one of `KINDS`.
        shard_size: int >= 1.
    """

    def __init__(self, paths, kind, shard_size):
        self.paths = paths
        self._kind, self._shard_size = kind, shard_size

    def description(self):
        """Returns what identifies this input: a list of [path, bytes, modification time in seconds]."""
        stats = [tf.io.gfile.stat(path) for path in self.paths]
        return [
            [path, stat.length, stat.mtime_nsec // 10**9]
            for path, stat in zip(self.paths, stats, strict=True)
        ]


class FileInput(_Files):
    """Files of lines or documents: "jsonl", "lines" or "text"."""

    def check(self, path, schema):
        """Raises `SourceError` if a file as a whole cannot be used; of JSON lines, about the first one."""
        lines.check(path, may_be_a_page=self._kind != "jsonl")
        if self._kind != "jsonl":
            return
        first = None
        for record in itertools.islice(_records(path, lines.read(path)), CHECKED_LINES):
            try:
                schema.values(self.fields(record))
                return
            except ValueError as error:
                if not first and (record.error or record.data.strip()):
                    first = SourceError(f"{path}, line {record.line}: {error}")
        if first:
            raise first

    def parts(self, file):
        """Yields the `Part`s of the file with this index; reads all of it to count its lines if necessary."""
        if self._kind == "text" or not lines.is_seekable(self.paths[file]):
            yield Part(file)
            return
        for shard, group in enumerate(_cut(lines.read(self.paths[file]), self._shard_size)):
            yield Part(file, shard, group[0].offset, group[0].number, 1)

    def shards(self, part):
        """Yields (name, list of `Record`s) for each shard of a part."""
        path = self.paths[part.file]
        stored = lines.read(path, part.offset, part.line)
        records = _documents(path, stored) if self._kind == "text" else _records(path, stored)
        shards = itertools.islice(_cut(records, self._shard_size), part.num_shards)
        for shard, group in enumerate(shards, part.shard):
            yield shard_name(part.file, shard), group

    def fields(self, record):
        """Returns the fields of a record, a dict; raises ValueError with the reason if it is bad."""
        if record.error:
            raise ValueError(record.error)
        if self._kind == "text":
            return parse_text(record.data)
        if not record.data.strip():
            raise ValueError("empty line")
        data = record.data.removeprefix(b"\xef\xbb\xbf") if record.line == 1 else record.data
        return parse_json(data) if self._kind == "jsonl" else parse_text(data.rstrip(b"\r\n"))


class TableInput(_Files):
    """Files of tables, each read by one worker from its beginning, since a row may span several lines."""

    def parts(self, file):
        yield Part(file)

    def shards(self, part):
        path = self.paths[part.file]
        rows = files.File(path, _FORMATS[self._kind], fields=None)
        records = (Record(path, row.line, row.size, row.data, _too_long(_size(row))) for row in rows)
        for shard, group in enumerate(_cut(records, self._shard_size)):
            yield shard_name(part.file, shard), group

    def fields(self, record):
        """Like that of `FileInput`; dates, and numbers that are not finite, become text.

        Raises:
            ValueError: if the record is too long, or cannot be parsed.
        """
        if record.error:
            raise ValueError(record.error)
        parsed = _FORMATS[self._kind].parse(record.data)
        return {name: _plain(name, value) for name, value in parsed.items()}


class TFDSInput:
    """A prepared TFDS data set; see `convnlp.data.tfds_source`.

    Args:
        name: string, such as "glue/sst2".
        split: string.
        shard_size: int >= 1.
        data_dir: string or None.
    """

    def __init__(self, name, split, shard_size, data_dir):
        self._name, self._shard_size, self._data_dir = name, shard_size, data_dir
        self._split, self._first, self._end = tfds_source.bounds(name, split, data_dir)
        self.paths = [f"tfds:{name}[{self._split}]"]

    def description(self):
        full_name = tfds_source.builder(self._name, self._data_dir).info.full_name  # with its version
        return [[full_name, self._split, self._first, self._end]]

    def parts(self, file):
        for shard, first in enumerate(range(self._first, self._end, self._shard_size)):
            yield Part(file, shard, first, first + 1, 1)

    def shards(self, part):
        end = min(part.offset + self._shard_size, self._end)
        examples = tfds_source.examples(self._name, self._split, part.offset, end, self._data_dir)
        records = [
            Record(self.paths[0], number, 0, example) for number, example in enumerate(examples, part.line)
        ]
        yield shard_name(part.file, part.shard), records

    def fields(self, record):
        return {name: _plain(name, value) for name, value in record.data.items()}


def shard_name(file, shard):
    """Returns the name of a shard, which is part of the names of its output files."""
    return f"{file:05d}-{shard:06d}"


def _cut(items, shard_size):
    """Yields lists of `shard_size` items, or fewer if they reach `SHARD_BYTES` earlier."""
    group, size = [], 0
    for item in items:
        group.append(item)
        size += item.size
        if len(group) == shard_size or size >= SHARD_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _records(path, stored):
    for line in stored:
        error = _too_long(line.size)
        yield Record(path, line.number, line.size, b"" if error else line.data, error)


def _size(row):
    """Returns the size of a table's row in bytes; of Parquet, which only knows averages, its texts' size."""
    if not isinstance(row.data, dict):
        return row.size
    return sum(len(value.encode()) for value in row.data.values() if isinstance(value, str))


def _too_long(size):
    """Returns why an example of this size in bytes cannot be used; "" if it can."""
    return f"longer than {lines.MAX_LINE_BYTES} bytes" if size > lines.MAX_LINE_BYTES else ""


def _documents(path, stored):
    """Yields the documents between blank lines; a line that is too long is a bad one of its own."""

    def numbered(found):
        for line in found:
            yield line.number, line.data.removeprefix(b"\xef\xbb\xbf") if line.number == 1 else line.data

    for error, found in itertools.groupby(stored, lambda line: _too_long(line.size)):
        if error:
            yield from _records(path, found)
        else:
            for record in text.documents(path, numbered(found)):
                yield Record(record.path, record.line, len(record.data), record.data)


def _plain(name, value):
    """Turns a value of TFDS or Parquet into JSON's form; bytes, and dates or NaN, become text."""
    if isinstance(value, dict):
        return {key: _plain(f"{name}/{key}", item) for key, item in value.items()}
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{name} is not UTF-8 (byte {error.start + 1})") from error
    value = getattr(value, "tolist", lambda: value)()
    if isinstance(value, list):
        return [_plain(name, item) for item in value]
    is_known = value is None or isinstance(value, int) or (isinstance(value, float) and isfinite(value))
    return value if is_known else str(value)  # turns a `Cell` into a plain string too
