"""Reads data sets by name.

| source | what it reads |
| --- | --- |
| `tfds:c4/en`, `tfds:glue/sst2` | a prepared TFDS data set in `data_dir` (local or gs://); no download |
| `jsonl:GLOB` | JSON-lines: one object per line |
| `csv:GLOB`, `tsv:GLOB` | tables of text with a header, separated by commas or tabs |
| `parquet:GLOB` | Parquet |
| `hf:DIR` | what `save_to_disk` of Hugging Face's datasets writes |
| `text:GLOB` | documents separated by blank lines, in the field "text" |
| `pydocs` | documentation of the installed Python and its packages, fields "text" and "label" |
| `pydocs:8` | the same for the 8 packages with the most documents, equally many from each |
| `tokens:DIR` | what `convnlp prepare-tokens` writes; only for pre-training, see `token_cache` |

Files of lines may be compressed, as .gz or .zst. They are UTF-8, or UTF-16 with a byte-order mark or an ASCII
character first. Parquet, `hf:` and .zst need pyarrow. In CSV and TSV, text that looks like a number is read
as one where a number is wanted. To add a format, add a file to `convnlp/data/formats`.

`{split}` in a GLOB stands for the split's name: `jsonl:data/sst2.{split}.jsonl.gz`. Without it, "train" is
the only split, except for `hf:` and `tfds:`, which have their own splits. Slices (`train[:95%]`,
`train[1000:]`) are written as in TFDS; in a glob, they are taken from every file.
"""

import dataclasses
import functools
import itertools

import numpy as np
from absl import logging

from convnlp.data import files, tfds_source, token_cache
from convnlp.data.errors import SourceError, unwrapped
from convnlp.data.label_names import label_names, multi_label_names
from convnlp.data.labels import Label, MultiLabel
from convnlp.data.opening import NO_TEXT, format_of, paths, stream_of
from convnlp.data.rules import short
from convnlp.data.schema import EveryField, RecordAndTexts, Schema
from convnlp.data.source import ALL, Split

__all__ = [
    "Sample",
    "check",
    "groups",
    "label_names",
    "multi_label_names",
    "numbers",
    "parts",
    "paths",
    "read",
    "read_blocks",
    "records",
]

CHECKED_BYTES = 1 << 30  # of a shard, by `check`: takes seconds, which is little if training reads more
PART_BYTES, PART_EXAMPLES = 1 << 28, 1 << 18


def read(source, fields=("text",), label=None, *, shard=ALL, seed=None):
    r"""Reads the examples of a source one by one.

    Args:
        source: `Source`.
        fields: tuple of strings, the text fields to read. Defaults to `("text",)`.
        label: `Label`, `Number` or None for texts alone. Default None.
        shard: `Shard`, the part of this worker. Defaults to all.
        seed: int, shuffles the files of a TFDS data set; the files of other sources are read in parallel.
            Default None: the order of the data set.

    Returns:
        A finite tf.data.Dataset of dicts, {field: string scalar} and, with a label, "label": int64, or
        float32 for a `Number`. Its order is deterministic, and tf.train.Checkpoint can save its iterator.

    Raises:
        SourceError: if the source is missing or empty, or a field or label of its first example is wrong. A
            later example that is wrong raises when it is reached; get the message by `source_error_message`.

    Example:
    >>> rows = [{"text": "A fine day.", "label": 1}, {"text": "A lost day.", "label": 0}]
    >>> _ = open("days.jsonl", "w").write("".join(json.dumps(row) + "\n" for row in rows))
    >>> for example in read(Source("jsonl:days.jsonl"), label=Label(num_classes=2)):
    ...     print(example["text"].numpy().decode(), int(example["label"]))
    A fine day. 1
    A lost day. 0
    """
    return read_blocks(source, fields, label, shard=shard, seed=seed).unbatch()


def read_blocks(source, fields=("text",), label=None, *, shard=ALL, seed=None, several=()):
    """Like `read`, in blocks, {field: string [n]}, of varying n >= 1; much faster for short texts.

    `several` names the fields that may hold a list of texts; see `schema.Schema`. In `tfds:`, they hold
    single texts.
    """
    schema = _schema(fields, _for_source(label, source), tuple(several))
    if source.kind == "tfds":
        return tfds_source.blocks(source, schema, shard, seed)
    return stream_of(source, schema, shard).dataset()


def parts(source, fields=("text",)):
    r"""Divides a source into parts that can be read independently, for example after a restart.

    A part is a sequence of files with `PART_BYTES` or a little more as stored, or one larger file; for
    `tfds:`, it is `PART_EXAMPLES` examples. The parts depend only on the source.

    Args:
        source: `Source`.
        fields: tuple of strings, the text fields to read. Defaults to `("text",)`.

    Returns:
        A list of functions without arguments, each of which opens a part and returns the tf.data.Dataset of
        its blocks; see `read_blocks`. If the source has a slice, a part may be empty.

    Raises:
        SourceError: if the source is missing. Other errors are raised when a part is opened or read.

    Example:
    >>> _ = open("days.jsonl", "w").write('{"text": "A fine day."}\n')
    >>> [[block["text"].numpy() for block in part()] for part in parts(Source("jsonl:days.jsonl"))]
    [[array([b'A fine day.'], dtype=object)]]
    """
    if source.kind == "tfds":
        slices = tfds_source.slices(source, PART_EXAMPLES)
        return [
            functools.partial(read_blocks, dataclasses.replace(source, split=each), fields) for each in slices
        ]
    if source.kind == "tokens":
        raise SourceError(NO_TEXT.format(source.name))
    found, size = [[]], 0
    names = paths(source)
    for path, length in zip(names, files.sizes(names), strict=True):
        if size >= PART_BYTES:
            found, size = [*found, []], 0
        found[-1].append(path)
        size += length
    return [functools.partial(_part, source, fields, group) for group in found]


def groups(source, fields=("text",)):
    r"""Divides a source into groups of files of about equal size, each spread over all files.

    `read_blocks` reads one group after another. A source of few files, or of `tfds:`, is one group.

    Args:
        source: `Source`.
        fields: tuple of strings, the text fields to read. Defaults to `("text",)`.

    Returns:
        As `parts`.

    Raises:
        SourceError: if the source is missing. Other errors are raised when a group is opened or read.

    Example:
    >>> for number in range(65):
    ...     _ = open(f"day{number:02d}.txt", "w").write(f"Day {number}.")
    >>> [len(list(group().unbatch())) for group in groups(Source("text:day??.txt"))]
    [33, 32]
    """
    found = [] if source.kind in ("tfds", "tokens") else files.groups(paths(source))
    if len(found) < 2:
        return [functools.partial(read_blocks, source, fields)]
    return [functools.partial(_part, source, fields, group) for group in found]


def _part(source, fields, group):
    """Returns the data set of the blocks of some files of a source, which may be empty if it has a slice."""
    schema, split = _schema(fields, None), Split.parse(source.split)
    return files.Stream(group, format_of(source), schema, split, ALL, may_be_empty=True).dataset()


def records(source, fields=("text",)):
    r"""Returns the records of a source with all their fields, in order: the files of a glob by their names.

    Args:
        source: `Source`; not `tfds:`.
        fields: tuple of strings, the text fields. Defaults to `("text",)`.

    Returns:
        Iterator of (dict, field -> value as stored; tuple of bytes, the UTF-8 text of each text field).

    Raises:
        SourceError: if the source is missing or empty, or a text field is missing or not a string; for the
            first record at once, for others when they are reached.

    Example:
    >>> _ = open("days.csv", "w").write("day,text\n7,A fine day.\n")
    >>> list(records(Source("csv:days.csv")))
    [({'day': '7', 'text': 'A fine day.'}, (b'A fine day.',))]
    """
    stream = stream_of(source, RecordAndTexts(tuple(fields)))
    return map(stream.values, stream.records(mixed=False))


def check(source, fields=("text",), label=None, *, shard=ALL):
    """Opens every file of a source and checks the shard's rows, in order, up to `CHECKED_BYTES`.

    Args:
        source: `Source`. For `tfds:`, only the fields and the split are checked, since TFDS checked the rows
            when it prepared them; for `tokens:`, the manifest and the sizes of its files.
        fields: tuple of strings. Defaults to `("text",)`.
        label: `Label`, `Number` or None. Default None.
        shard: `Shard`. Defaults to all.

    Raises:
        SourceError: names the file and the line of the first row that cannot be used.

    Example:
    >>> _ = open("days.txt", "w").write("A fine day.")
    >>> check(Source("text:days.txt"))
    >>> check(Source("text:days.txt"), fields=("body",))
    Traceback (most recent call last):
    ...
    convnlp.data.errors.SourceError: days.txt, line 1: no field 'body' (available: 'text')
    """
    schema = _schema(fields, _for_source(label, source))
    if source.kind == "tokens" and label is None:
        token_cache.TokenCache(source)
        return
    if source.kind == "tfds":
        tfds_source.blocks(source, schema, shard, None)
        return
    stream = stream_of(source, schema, shard)
    size = 0
    for record in stream.records():
        stream.values(record)
        size += record.size
        if size >= CHECKED_BYTES:
            logging.info("%s: checked the first %d bytes of rows", source, size)
            return


class Sample:
    """The first examples of a source as stored, with all their fields.

    Args:
        source: `Source`.
        num_rows: int, the maximum number to read.

    Attributes:
        fields: list of strings, the fields of the first example.
        rows: list of dicts; empty for `tfds:`, whose fields are known without reading.

    Raises:
        SourceError: if the source cannot be read.
    """

    def __init__(self, source, num_rows):
        if source.kind == "tfds":
            self._place = None
            self.fields, self.rows = list(tfds_source.builder(source.path, source.data_dir).info.features), []
            self._name = source.name
            return
        stream = stream_of(source, EveryField())
        records = list(itertools.islice(stream.records(), num_rows))
        self._place, self._format = records[0], format_of(source)
        self.rows = [stream.values(record) for record in records]
        self.fields = list(self.rows[0])

    def error(self, reason):
        """Returns a `SourceError` about the fields: with the place of the header, or of the first example."""
        if self._place is None:
            return SourceError(f"{self._name}: {reason}")
        return self._format.error_in_fields(self._place, reason)

    def doubt(self):
        """Returns what may be wrong with a source that lacks a field; see `Format.doubt`."""
        return "" if self._place is None else self._format.doubt(self._place, self.fields)


def numbers(source, label):
    r"""Returns the numbers that label all examples of a source.

    Args:
        source: `Source`.
        label: `Number`.

    Returns:
        float32 array [n].

    Raises:
        SourceError: if the source or a number cannot be read.

    Example:
    >>> _ = open("days.csv", "w").write("text,stars\nA fine day.,4.5\nA lost day.,1\n")
    >>> numbers(Source("csv:days.csv"), Number("stars"))
    array([4.5, 1. ], dtype=float32)
    """
    with unwrapped():
        return np.concatenate([block["label"].numpy() for block in read_blocks(source, (), label)])


def _for_source(label, source):
    """Returns a label as it is to be read from a source: what its integers stand for.

    If the source stores names, they are places of these; else they are names, if one of the label's names is
    an integer. Names of the user's own, none of which is stored, replace the stored ones in their order.
    """
    has_names = isinstance(label, Label | MultiLabel) and label.names and isinstance(label.field, str)
    is_number = isinstance(label, Label) and label.threshold is not None
    if not has_names or is_number or source.kind == "tokens":
        return label
    stored = _stored_names(source, label.field)
    if not stored:
        return dataclasses.replace(label, by_name=True)
    if {*stored} & {*label.names}:
        return dataclasses.replace(label, stored=stored)
    if len(stored) != len(label.names):
        raise SourceError(
            f"{source}: `label_names` must be names that the data store for {label.field}, "
            f"{short([*stored])}, or as many others in their order. Received: {short([*label.names])}"
        )
    return dataclasses.replace(label, has_order=True)


def _stored_names(source, field):
    """Returns the names that a source stores for the integers of a field, a tuple; None if there are none."""
    if source.kind == "tfds":
        return tfds_source.class_names(source, field)
    return format_of(source).class_names(paths(source)[0], field)


def _schema(fields, label, several=()):
    schema = Schema(tuple(fields), label, several)
    if not schema.keys:
        raise ValueError("`fields` must name at least one field if no label is read. Received: none")
    if label and "label" in fields:  # the key of the label, whatever its field is called
        raise SourceError("a field with text must not be called 'label' if a label is read; rename it")
    return schema
