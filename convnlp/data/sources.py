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
import os

import numpy as np
from absl import logging

from convnlp.data import files, pydocs, tfds_source, token_cache
from convnlp.data.errors import SourceError, unwrapped
from convnlp.data.formats import FORMATS
from convnlp.data.labels import SEPARATORS, Cell, parts_of
from convnlp.data.rules import short
from convnlp.data.schema import ClassSchema, EveryField, OneField, RecordAndTexts, Schema
from convnlp.data.source import ALL, Split

CHECKED_BYTES = 1 << 30  # of a shard, by `check`: takes seconds, which is little if training reads more
MAX_RARE_CLASSES = 100  # more classes than this, with fewer than two examples each, suggest a wrong field
PART_BYTES, PART_EXAMPLES = 1 << 28, 1 << 18
_NAMED_CLASSES = 5  # in a warning
_TO_NUMBERS = "; with task.kind=regression, finetune learns the numbers themselves"
_NO_TEXT = "{} holds token ids and no text; only convnlp pretrain can read it"


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
    schema = _schema(fields, label, tuple(several))
    if source.kind == "tfds":
        return tfds_source.blocks(source, schema, shard, seed)
    return _stream(source, schema, shard).dataset()


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
        raise SourceError(_NO_TEXT.format(source.name))
    schema, split = _schema(fields, None), Split.parse(source.split)

    def opened(group):
        return files.Stream(group, _format(source), schema, split, ALL, may_be_empty=True).dataset()

    groups, size = [[]], 0
    found = paths(source)
    for path, length in zip(found, files.sizes(found), strict=True):
        if size >= PART_BYTES:
            groups, size = [*groups, []], 0
        groups[-1].append(path)
        size += length
    return [functools.partial(opened, group) for group in groups]


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
    stream = _stream(source, RecordAndTexts(tuple(fields)), ALL)
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
    schema = _schema(fields, label)
    if source.kind == "tokens" and label is None:
        token_cache.TokenCache(source)
        return
    if source.kind == "tfds":
        tfds_source.blocks(source, schema, shard, None)
        return
    stream = _stream(source, schema, shard)
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
        stream = _stream(source, EveryField(), ALL)
        records = list(itertools.islice(stream.records(), num_rows))
        self._place, self._format = records[0], _format(source)
        self.rows = [stream.values(record) for record in records]
        self.fields = list(self.rows[0])

    def error(self, reason):
        """Returns a `SourceError` about the fields: with the place of the header, or of the first example."""
        if self._place is None:
            return SourceError(f"{self._name}: {reason}")
        return self._format.error_in_fields(self._place, reason)


def paths(source):
    """Returns the paths of a source's files, a list: the manifest for `tokens:`, none for `tfds:`."""
    if source.kind == "tfds":
        return []
    if source.kind == "tokens":
        directory = token_cache.directory_of(source)
        token_cache.read_manifest(directory)
        return [os.path.join(directory, token_cache.MANIFEST)]
    path = pydocs.path(source.path) if source.kind == "pydocs" else source.path
    return files.find(source.name, _format(source).locate(path, Split.parse(source.split).name))


def label_names(source, field="label"):
    """Returns the names of a source's classes, in order.

    Args:
        source: `Source`.
        field: string, the label's field.

    Returns:
        A tuple of strings: the names that TFDS or `hf:` has stored, or else the distinct strings of the
        field, sorted and, in a table of text, without spaces around them, or the integers from 0 to the
        highest.

    Raises:
        SourceError: if the source cannot be read, or the field holds anything but strings or integers >= 0.
            Also if there are fewer than two classes; if fewer than half of the integers up to the highest
            have an example, as after a single stray number; or if there are many strings, most of which occur
            only once. These limits do not apply if the user lists the names instead.
    """
    if source.kind == "tfds":
        return tfds_source.label_names(source, field)
    stream = _stream(source, ClassSchema(field), ALL)
    if names := _format(source).class_names(paths(source)[0], field):
        return names
    first, count = {}, 0  # value -> where it occurs first
    for record in stream.records():
        count += 1
        (value,) = stream.values(record)
        if value not in first:
            other = next(iter(first), value)
            if type(value) is not type(other):
                raise record.error(
                    f"`{field}` must be all strings or all integers. "
                    f"Received: {short(value)} after {short(other)}"
                )
            first[value] = record.without_data()
    if len(first) < 2:
        raise SourceError(f"{source}: `{field}` must have at least two classes. Received: {short([*first])}")
    is_table = isinstance(next(iter(first)), Cell)
    if is_table and all(cell.is_natural for cell in first):
        numbers = {int(cell): place for cell, place in first.items()}
        if max(numbers) + 1 <= 2 * len(numbers):  # else they are names that look like numbers
            first = numbers
    if isinstance(next(iter(first)), str):
        are_fractions = is_table and _are_fractions(first)
        if len(first) > max(MAX_RARE_CLASSES, count / 2):
            raise SourceError(
                f"{source}: {field} has {len(first)} different strings in {count} examples; if they are "
                f"classes, list them in label_names{_TO_NUMBERS * are_fractions}"
            )
        if are_fractions:
            message = "%s: %s has %d different numbers, taken for classes%s"
            logging.warning(message, source, field, len(first), _TO_NUMBERS)
        _warn_of_case(source, field, first)
        return tuple(sorted(map(str, first)))
    highest = max(first)
    if highest + 1 > 2 * len(first):
        raise first[highest].error(
            f"{field} {short(highest)} would make {short(highest + 1)} classes, of which only {len(first)} "
            "have examples; if this is intended, list all of them in label_names"
        )
    if unused := [number for number in range(highest) if number not in first]:
        what = "1 class has" if len(unused) == 1 else f"{len(unused)} classes have"
        # In JSON, 1 stays the second class, whatever its name is.
        advice = f"; for 1 to {highest} alone, list them in label_names" if is_table and unused == [0] else ""
        logging.warning("%s: %s no example: %s%s", source, what, str(unused[:_NAMED_CLASSES])[1:-1], advice)
    return tuple(map(str, range(highest + 1)))


def _are_fractions(cells):
    """Returns whether all cells are numbers, some of them with decimals, after a point or a comma."""
    values = [Cell(cell.replace(",", ".")).number() for cell in cells]
    return all(isinstance(value, float) for value in values) and not all(map(float.is_integer, values))


def _warn_of_case(source, field, names):
    """Logs two classes that differ only in upper and lower case, if there are any."""
    first = {}
    for name in sorted(names):
        other = first.setdefault(name.casefold(), name)
        if other != name:
            logging.warning("%s: %s and %s of %s are two classes", source, *map(short, (other, name)), field)
            return


def multi_label_names(source, field="label", separator=None):
    r"""Returns the names of a source's labels if each example has any number of them in a single field.

    Args:
        source: `Source`; not `tfds:`.
        field: string, a field with lists, or strings with separators; see `MultiLabel`.
        separator: string. Default None: the first of `labels.SEPARATORS` that occurs in a value.

    Returns:
        (tuple of strings, sorted, or integers as strings; the separator, a string).

    Raises:
        SourceError: if the source or a value cannot be read, or there are no labels, or implausibly many.
            This limit does not apply if the user lists the names instead.

    Example:
    >>> _ = open("days.csv", "w").write("text,label\nA fine day.,fine|short\nA lost day.,short\n")
    >>> multi_label_names(Source("csv:days.csv"))
    (('fine', 'short'), '|')
    """
    if source.kind == "tfds":
        raise SourceError(f"{source}: several labels in one field cannot be read; set label_fields")
    stream = _stream(source, OneField(field), ALL)
    values = [(record, *stream.values(record)) for record in stream.records()]
    texts = [value for _, value in values if isinstance(value, str)]
    used = [each for each in SEPARATORS if any(each in text for text in texts)]
    separator = separator or (used or SEPARATORS)[0]
    found = set()
    for record, value in values:
        try:
            parts = parts_of(field, value, separator)
            if any(not isinstance(part, str) and type(part) is not int for part in parts):
                raise ValueError(f"`{field}` must hold names or integers. Received: {short(value)}")
        except ValueError as error:
            raise record.error(error) from error
        found |= {*parts}
    numbers = {part for part in found if type(part) is int}
    if numbers and numbers == found and min(numbers) >= 0 and max(numbers) < 2 * len(numbers):
        names = _format(source).class_names(paths(source)[0], field)
        return names or tuple(map(str, range(max(numbers) + 1))), separator
    if not found or numbers or len(found) > max(MAX_RARE_CLASSES, len(values) / 2):
        raise SourceError(
            f"{source}: `{field}` must hold labels: either names only or integers >= 0 only. "
            f"Received: {len(found)} different values in {len(values)} examples"
        )
    return tuple(sorted(found)), separator


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


def _schema(fields, label, several=()):
    schema = Schema(tuple(fields), label, several)
    if not schema.keys:
        raise ValueError("`fields` must name at least one field if no label is read. Received: none")
    if label and "label" in fields:  # the key of the label, whatever its field is called
        raise SourceError("a field with text must not be called 'label' if a label is read; rename it")
    return schema


def _format(source):
    return FORMATS["jsonl" if source.kind == "pydocs" else source.kind]


def _stream(source, schema, shard):
    if source.kind == "tokens":
        raise SourceError(_NO_TEXT.format(source.name))
    return files.Stream(paths(source), _format(source), schema, Split.parse(source.split), shard)
