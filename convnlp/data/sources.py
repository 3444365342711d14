"""Data sets by name: `tfds:NAME`, `jsonl:GLOB`, `text:GLOB` and `pydocs`.

| source | what it reads |
| --- | --- |
| `tfds:c4/en`, `tfds:glue/sst2` | a prepared TFDS data set under `data_dir` (local or gs://); nothing is
downloaded | | `jsonl:GLOB` | JSON-lines, plain or .gz: one object a line |
| `text:GLOB` | UTF-8 text, plain or .gz: documents separated by blank lines, in the field "text" |
| `pydocs` | documentation of the installed Python and its packages, fields "text" and "label" |
| `pydocs:8` | the same, of the 8 packages with most of it, as many documents of each |

`{split}` in a GLOB stands for the split's name: `jsonl:data/sst2.{split}.jsonl.gz`. Without it there is one
split, "train". Slices (`train[:95%]`, `train[1000:]`) are TFDS's; in a glob they are taken of every file.
"""

from convnlp.data import files, pydocs, tfds_source
from convnlp.data.errors import SourceError
from convnlp.data.schema import Schema
from convnlp.data.splits import Split

KINDS = ("tfds", "jsonl", "text", "pydocs")


def read(
    source,
    split="train",
    fields=("text",),
    label=None,
    *,
    data_dir=None,
    num_shards=1,
    shard_index=0,
    seed=None,
):
    r"""Reads the examples of a source, one by one.

    Args:
        source: string, see above.
        split: string, a name with an optional slice. Defaults to "train".
        fields: tuple of strings, the text fields to read. Defaults to `("text",)`.
        label: `Label`, or None for texts alone. Default None.
        data_dir: string, where TFDS looks. Defaults to its own choice.
        num_shards: int >= 1, number of workers. Default 1.
        shard_index: int from 0, this worker; the shards have no example in common. Default 0.
        seed: int, shuffles the files of a TFDS data set. Files of other sources are read side by side.
            Default None: the order of the data set.

    Returns:
        A finite tf.data.Dataset of dicts, {field: string scalar} and, with a label, int64 "label". Its order
        is always the same and its iterator can be saved by tf.train.Checkpoint.

    Raises:
        SourceError: if the source is missing or empty, or a field or label of its first example is wrong.
            What is wrong later raises when it is reached; `source_error_message` gives the message then.

    Example:
    >>> rows = [{"text": "A fine day.", "label": 1}, {"text": "A lost day.", "label": 0}]
    >>> _ = open("days.jsonl", "w").write("".join(json.dumps(row) + "\n" for row in rows))
    >>> for example in read("jsonl:days.jsonl", label=Label(num_classes=2)):
    ...     print(example["text"].numpy().decode(), int(example["label"]))
    A fine day. 1
    A lost day. 0
    """
    return read_blocks(
        source,
        split,
        fields,
        label,
        data_dir=data_dir,
        num_shards=num_shards,
        shard_index=shard_index,
        seed=seed,
    ).unbatch()


def read_blocks(source, split, fields, label=None, *, data_dir=None, num_shards=1, shard_index=0, seed=None):
    """As `read`, in blocks: {field: string [n]}, n >= 1 as it comes, which is much faster for short texts."""
    schema = Schema(tuple(fields), label)
    if not 0 <= shard_index < num_shards:
        raise ValueError(
            f"shard_index must be from 0 to num_shards - 1 = {num_shards - 1}; received {shard_index}"
        )
    if not schema.keys:
        raise ValueError("fields must name at least one field where no label is read; received none")
    kind, name = _parse(source)
    if kind == "tfds":
        return tfds_source.blocks(name, split, schema, data_dir, num_shards, shard_index, seed)
    return _stream(source, split, schema, num_shards, shard_index).dataset()


def label_names(source, split="train", field="label", *, data_dir=None):
    """Names of the classes of a source, in order.

    Args:
        source: string.
        split: string.
        field: string, the label's field.
        data_dir: string, where TFDS looks.

    Returns:
        A tuple of strings: the names that TFDS gives, else the distinct strings of the field, sorted, or the
        integers from 0 to the highest.

    Raises:
        SourceError: if the source cannot be read or the field holds neither strings nor integers.
    """
    kind, name = _parse(source)
    if kind == "tfds":
        return tfds_source.label_names(name, field, data_dir)
    values = set()
    for (value,) in _stream(source, split, _RawField(field)):
        values.add(value)
    if all(isinstance(value, str) for value in values):
        return tuple(sorted(values))
    if all(type(value) is int and value >= 0 for value in values):
        return tuple(map(str, range(max(values) + 1)))
    raise SourceError(
        f"{source}: {field} must be strings or integers from 0; found {sorted(map(repr, values))[:3]}"
    )


class _RawField(Schema):
    """A schema that gives a field's value as it is."""

    def __init__(self, field):
        super().__init__((field,))

    def values(self, record):
        if self.texts[0] not in record:
            raise ValueError(f"no field {self.texts[0]!r}")
        return [record[self.texts[0]]]


def _parse(source):
    kind, _, name = source.partition(":")
    if kind not in KINDS or (not name and kind != "pydocs"):
        raise SourceError(
            f"source must be 'tfds:NAME', 'jsonl:GLOB', 'text:GLOB' or 'pydocs'; received {source!r}"
        )
    return kind, name


def _stream(source, split, schema, num_shards=1, shard_index=0):
    kind, name = _parse(source)
    split = Split.parse(split)
    if "{split}" not in name and split.name != "train":
        raise SourceError(
            f"{source} has no split {split.name!r}: write {{split}} where its files have the split's name, "
            "or take a slice such as train[95%:]"
        )
    if kind == "pydocs":
        kind, name = "jsonl", pydocs.path(name)
    paths = files.find(source, name.replace("{split}", split.name))
    return files.Stream(paths, kind, schema, split, num_shards, shard_index)
