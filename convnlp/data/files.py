"""Records of files as a tf.data source whose state is a single number.

A stream of records is cut into blocks of about `BLOCK_BYTES`. tf.data holds the number of the next block; the
open files stay in Python, and are reopened and read up to that block if an iterator is restored from a
checkpoint.
One Python call reads and decodes a whole block, so that its cost does not depend on the number of records.
"""

import codecs
import concurrent.futures
import functools
import heapq
import io
import itertools
import os
import threading
import zlib

import numpy as np
import tensorflow as tf

from convnlp.data import stored
from convnlp.data.errors import SourceError
from convnlp.data.formats import Record

BLOCK_BYTES = 1 << 17  # about 30,000 tokens: small next to a shuffle buffer, but much work for a Python call
MAX_LINE_BYTES = 1 << 24  # a longer line is an error: nobody writes a document of millions of words
OPEN_FILES = 64  # files read in parallel; more are read in groups, see `groups`
REQUESTS = 32  # simultaneous requests to a file system behind a URL
IDLE_STREAMS = 4  # open streams kept for iterators that may continue from them
# First bytes of files that people take for text.
_NOT_TEXT = {
    b"PK\x03\x04": "a zip archive, or a workbook of a spreadsheet; save its table as CSV",
    b"\x1f\x8b": "packed by gzip; its name must end in .gz",
    b"\x28\xb5\x2f\xfd": "packed by zstd; its name must end in .zst",
    b"PAR1": "Parquet; read it as parquet:",
    b"BZh91AY&SY": "packed by bzip2; pack it by gzip or zstd, or unpack it",
    b"\xfd7zXZ": "packed by xz; pack it by gzip or zstd, or unpack it",
    b"\xd0\xcf\x11\xe0": "a workbook of a spreadsheet; save its table as CSV",
    b"\xff\xfe\x00\x00": "UTF-32; save it as UTF-8",
    b"\x00\x00\xfe\xff": "UTF-32; save it as UTF-8",
    b"version https://git-lfs.": "a pointer of Git LFS; fetch its content: git lfs pull",
}
_PAGES = (b"<!doctype html", b"<html")  # what a download may be instead of data
START_BYTES = 64  # that are looked at


class File:
    """A file that is being read: its content, and how much of it has been read.

    Args:
        path: string.
        format: `Format`.
        fields: tuple of strings, the fields to read; None for all.

    Attributes:
        path: string, as given.
        size: int, bytes as stored.
        progress: float in [0, 1], the part that has been read.
    """

    def __init__(self, path, format, fields):
        self.path, self._format, self._fields = path, format, fields
        self.size, self.progress = 0, 0.0

    def __iter__(self):
        """Yields its `Record`s."""
        try:
            self.size = tf.io.gfile.stat(self.path).length
        except tf.errors.OpError as error:
            raise SourceError(f"{self.path}, line 1: cannot be read: {error}") from error
        return iter(() if self.size == 0 else self._format.records(self, self._fields))

    def opened(self):
        """Opens the file as stored, in binary mode; the caller closes it."""
        return stored.open_stored(self.path)

    def lines(self):
        """Yields (number from 1, line as UTF-8 bytes), decompressed and without a byte-order mark.

        Raises:
            SourceError: if the file cannot be read or is another kind of file, or a line is too long.
        """
        number = 0
        try:
            with self.opened() as file:
                # The limit keeps a line that never ends from filling the memory.
                unpacked = stored.unpacked(self.path, file)
                check_is_text(self.path, unpacked.peek(START_BYTES), self._format.may_be_a_page)
                read = functools.partial(_readline(unpacked), MAX_LINE_BYTES + 1)
                for number, line in enumerate(iter(read, b""), 1):
                    if len(line) > MAX_LINE_BYTES:
                        raise Record(self.path, number, line, len(line)).error(
                            f"the line is longer than {MAX_LINE_BYTES >> 20} MiB"
                        )
                    yield number, line
                    self.progress = file.tell() / self.size
        except (OSError, EOFError, zlib.error, UnicodeError, tf.errors.OpError) as error:
            raise SourceError(f"{self.path}, line {number + 1}: cannot be read: {error}") from error


def check_is_text(path, start, may_be_a_page):
    """Raises `SourceError` if the first bytes of a file, `START_BYTES`, are those of another kind of file."""
    for mark, what in _NOT_TEXT.items():
        if start.startswith(mark):
            raise SourceError(f"{path}: the file is {what}")
    if not may_be_a_page and start.lstrip().lower().startswith(_PAGES):
        raise SourceError(f"{path}: the file is a web page; download the data themselves")


def _readline(file):
    """Returns a `readline` that yields UTF-8, also of UTF-16, such as a spreadsheet's "Unicode text"."""
    start = file.peek(len(codecs.BOM_UTF8))
    if encoding := utf_16(start):
        text = io.TextIOWrapper(file, encoding, newline="\n")
        return lambda size: text.readline(size).encode()
    if start.startswith(codecs.BOM_UTF8):
        file.read(len(codecs.BOM_UTF8))
    return file.readline


def utf_16(start):
    """Returns the name of the UTF-16 that a file begins in, or None: by its mark, or an ASCII character."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    zeros = [byte == 0 for byte in start[:2]]
    return {(False, True): "utf-16-le", (True, False): "utf-16-be"}.get(tuple(zeros))


def of_each(function, paths):
    """Calls a function for each path and returns the values, a list.

    For URLs, which are slow to answer, `REQUESTS` calls run at a time. The error of the first path that fails
    is raised.
    """
    if not any("://" in path for path in paths):
        return [function(path) for path in paths]
    with concurrent.futures.ThreadPoolExecutor(REQUESTS) as pool:
        return list(pool.map(function, paths))


def sizes(paths):
    """Returns the size of each file as stored, in bytes, a list of int."""
    return of_each(lambda path: tf.io.gfile.stat(path).length, paths)


def find(source, pattern):
    """Returns the paths of the files that match a glob, a sorted list of strings.

    Args:
        source: string, the name to give in an error.
        pattern: string. If nothing matches it, a file of exactly this name counts, such as "a[1].csv". As
            in a shell, hidden files and folders match only what begins with a dot too.

    Raises:
        SourceError: if no file matches, the file system cannot be read, or a match is not a regular file.
    """
    try:
        found = sorted(path for path in tf.io.gfile.glob(pattern) if not _is_hidden(path, pattern))
        found = found or [pattern] * tf.io.gfile.exists(pattern)
        paths = list(itertools.compress(found, of_each(lambda path: not tf.io.gfile.isdir(path), found)))
    except tf.errors.OpError as error:
        raise SourceError(f"{source}: cannot list {pattern}: {error.message}") from error
    if found and not paths:
        raise SourceError(f"{source}: {found[0]} is a directory; name its files, for example {found[0]}/*")
    if not paths:
        raise SourceError(f"{source}: no such file: {pattern}")
    for path in paths:
        if "://" not in path and not os.path.isfile(path):
            raise SourceError(f"{source}: {path} must be a regular file, because it is read more than once")
    return paths


def _is_hidden(path, pattern):
    """Returns whether a part of a path begins with a dot, and what it matches in the pattern does not."""
    parts, asked = ([part for part in name.split("/") if part not in ("", ".")] for name in (path, pattern))
    pairs = zip(reversed(parts), reversed(asked), strict=False)
    return any(part.startswith(".") and not own.startswith(".") for part, own in pairs)


def groups(paths):
    """Divides files into groups of at most `OPEN_FILES`, each of which is spread over all of them.

    Their names are sorted, and often by what the files hold: by language, or by date.
    """
    count = -(-len(paths) // OPEN_FILES)
    return [paths[first::count] for first in range(count)]


def _mixed(paths, open_file):
    """Yields the records of several files, always from the file of which the smallest part has been read.

    This spreads files of very different sizes evenly over the whole stream; those of more than `OPEN_FILES`
    files over that of their group, and one group follows another. `open_file` turns a path into a `File` and
    an iterator over the wanted records in it.
    """
    for group in groups(paths):
        opened = [open_file(path) for path in group]
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
    """The records of files that belong to one worker.

    Args:
        paths: list of strings.
        format: `Format`.
        schema: `Schema`, what to read from each record.
        split: `Split`; its slice is taken from every file.
        shard: `Shard`.
        may_be_empty: bool, whether the split may contain no records of these files. Defaults to False.

    Raises:
        SourceError: if a file is empty or its first record cannot be used, or the shard has no records.
    """

    def __init__(self, paths, format, schema, split, shard, may_be_empty=False):
        self._paths, self._split, self._schema, self._shard = paths, split, schema, shard
        self._format = format
        self._totals = {}  # path -> number of records, for files that have been counted
        self._idle = []  # (number of the next block, open stream), the latest last
        self._reading = threading.Lock()  # tf.data reads ahead, for each iterator in a thread of its own
        of_each(self._check, paths)
        is_part = not split.is_whole or shard.count > 1
        if is_part and not may_be_empty and next(self.records(), None) is None:
            raise SourceError(self._nothing_left())

    def __iter__(self):
        """Yields the values of `schema`, record by record."""
        return map(self.values, self.records())

    def records(self, mixed=True):
        """Yields the shard's records as they are stored; the files are mixed, or follow one another."""
        if mixed:
            return self._shard.of(_mixed(self._paths, self._open))
        return self._shard.of(itertools.chain.from_iterable(self._open(path)[1] for path in self._paths))

    def values(self, record):
        """Returns the values of `schema` in a record; raises `SourceError`, with its place, if it is bad."""
        try:
            return self._schema.values(self._format.parse(record.data))
        except ValueError as error:
            raise record.error(error) from error

    def _file(self, path):
        return File(path, self._format, self._schema.fields)

    def _open(self, path):
        file = self._file(path)
        if self._split.is_whole:
            return file, iter(file)
        return file, itertools.islice(file, *self._split.bounds(self._total(path)))

    def _check(self, path):
        record = next(iter(self._file(path)), None)
        if record is None:
            raise SourceError(f"{path}: the file is empty")
        self.values(record)

    def _nothing_left(self):
        records = sum(self._total(path) for path in self._paths)
        where = self._paths[0] + (f" and {len(self._paths) - 1} more" if len(self._paths) > 1 else "")
        whose = f" for worker {self._shard.index} of {self._shard.count}" if self._shard.count > 1 else ""
        return f"{where}: split {self._split} contains none of the {records} records{whose}"

    def _total(self, path):
        if path not in self._totals:
            self._totals[path] = sum(1 for _ in self._file(path))
        return self._totals[path]

    def block(self, number):
        """Returns the values of the records in block `number`, a list of rows; empty after the end."""
        with self._reading:
            stream = self._stream_at(number)
            records = _next_block(stream)
            if records:
                self._idle = [*self._idle[1 - IDLE_STREAMS :], (number + 1, stream)]
        return [self.values(record) for record in records]

    def _stream_at(self, number):
        for i, (position, stream) in enumerate(self._idle):
            if position == number:
                del self._idle[i]
                return stream
        stream = self.records()
        for _ in range(number):
            _next_block(stream)
        return stream

    def dataset(self):
        """Returns a tf.data.Dataset of blocks: {field: string [n]}, and "label" [n,...] if there is one."""
        keys, label = self._schema.keys, self._schema.label
        types = [tf.string] * len(self._schema.texts) + ([tf.as_dtype(label.dtype)] if label else [])
        shapes = [()] * len(self._schema.texts) + [self._schema.label_shape] * bool(label)

        def read(number):
            columns = list(zip(*self.block(int(number)), strict=True)) or [()] * len(types)
            # NumPy's own string type would cut trailing zero bytes, so texts travel as objects.
            return [
                np.array(column, type.as_numpy_dtype).reshape([-1, *shape])  # object for tf.string
                for column, type, shape in zip(columns, types, shapes, strict=True)
            ]

        @tf.autograph.experimental.do_not_convert
        def block(number):
            values = tf.numpy_function(read, [number], types)
            parts = zip(keys, values, shapes, strict=True)
            return {key: tf.ensure_shape(value, [None, *shape]) for key, value, shape in parts}

        @tf.autograph.experimental.do_not_convert
        def is_filled(columns):
            return tf.size(columns[keys[0]]) > 0

        options = tf.data.Options()
        # The block number is the only state, so a checkpoint need not save the Python function.
        options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
        return tf.data.Dataset.counter(dtype=tf.int64).map(block).take_while(is_filled).with_options(options)


def _next_block(stream):
    records, size = [], 0
    for record in stream:
        records.append(record)
        size += record.size
        if size >= BLOCK_BYTES:
            break
    return records
