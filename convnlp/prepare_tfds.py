r"""Writes any source as a prepared TFDS data set, in TFDS's own layout, so that `tfds:NAME` reads it.

    convnlp prepare-tfds --source='jsonl:web/*.jsonl.gz' --name=c4/en:3.1.0 --data_dir=DIR \
        --splits='train=train[2%:],validation=train[:2%]'

`c4/...` gets the features of C4: text, url, timestamp, content-type, content-length; those that --text_fields
does not name are empty. Any other name gets these fields under their own names, with a class label if there
is one.
"""

import contextlib
import os
import re
import shutil

import tensorflow_datasets as tfds
from absl import flags

from convnlp import outputs, programs, source_flags
from convnlp.data import Label, Source, sources
from convnlp.training import run_lock

C4_FIELDS = ("text", "url", "content-type", "content-length", "timestamp")
_NAME = re.compile(r"([a-z][a-z0-9_]*)(?:/(\w[\w.-]*))?:(\d+\.\d+\.\d+)", re.ASCII)
_SPLIT = re.compile(r"(?!all$)\w+", re.ASCII)  # "all" stands for all splits in TFDS


def prepare(source, name, data_dir, splits, fields=("text",), label_field="", source_data_dir=None):
    """Writes a data set, which appears under `data_dir` once it is complete.

    Args:
        source: string, see `convnlp.data.sources`.
        name: string, "NAME:VERSION" or "NAME/CONFIG:VERSION", such as "c4/en:3.1.0".
        data_dir: string, a local folder.
        splits: dict, split to write -> split of the source, optionally sliced.
        fields: tuple of strings, text fields. Defaults to `("text",)`.
        label_field: string, the field that holds the class; "" for none. Defaults to "".
        source_data_dir: string, where TFDS looks for a source tfds:NAME.

    Returns:
        string, the folder that was written.

    Raises:
        ValueError: if `name` or a split's is one that TFDS could not read, if `data_dir` is a URL, if a field
            has no place in the data set, or if the data set already exists.
        SourceError: as for `sources.read`.
    """
    match = _NAME.fullmatch(name)
    if not match:
        raise ValueError(
            "`name` must be NAME:VERSION or NAME/CONFIG:VERSION, such as c4/en:3.1.0, with NAME of small "
            f"letters, digits and underscores. Received: {name!r}"
        )
    if not splits or not all(map(_SPLIT.fullmatch, splits)):
        raise ValueError(
            "`splits` must have names of letters, digits and underscores, other than all. "
            f"Received: {', '.join(map(repr, splits)) or 'none'}"
        )
    outputs.check_folder("data_dir", data_dir)
    dataset, config, version = match.groups()
    if dataset == "c4" and (others := [field for field in fields if field not in C4_FIELDS]):
        raise ValueError(f"`text_fields` of c4 must be among {', '.join(C4_FIELDS)}. Received: {others[0]}")
    if label_field in fields:
        raise ValueError(
            f"`label_field` must not be one of `text_fields`: a field is stored once. Received: {label_field}"
        )
    folder = os.path.join(dataset, config or "", version)
    final = os.path.join(data_dir, folder)
    if os.path.exists(final):
        raise ValueError(f"{final} already exists: remove it first, or choose another version")

    features, label = {field: tfds.features.Text() for field in fields}, None
    if dataset == "c4":
        features = {field: tfds.features.Text() for field in C4_FIELDS}
    if label_field:
        first = Source(source, next(iter(splits.values())), source_data_dir)
        names = sources.label_names(first.whole, label_field)  # a slice may lack a rare class
        label = Label(label_field, names=names)
        features[label_field] = tfds.features.ClassLabel(names=names)

    for split in splits.values():  # before the first split is written
        sources.check(Source(source, split, source_data_dir), fields, label)

    def examples(split):
        dataset = sources.read(Source(source, split, source_data_dir), fields, label)
        for number, example in enumerate(dataset.as_numpy_iterator()):
            if label:
                example[label_field] = example.pop("label")
            yield number, dict.fromkeys(features, b"") | example

    tfds.disable_progress_bar()
    # A name of its own for each data set, so that the next start finds what a killed one has left.
    partial = os.path.join(data_dir, f".partial-{folder.replace(os.sep, '-')}")
    with outputs.tidy_end(), run_lock.held(partial, "data_dir"), _emptied(partial):
        tfds.dataset_builders.store_as_tfds_dataset(
            name=dataset,
            config=config,
            version=version,
            data_dir=partial,
            features=tfds.features.FeaturesDict(features),
            split_datasets={split: examples(of) for split, of in splits.items()},
            description=f"Written from {source} by convnlp.prepare_tfds.",
            disable_shuffling=True,
        )
        os.makedirs(os.path.dirname(final), exist_ok=True)
        os.rename(os.path.join(partial, folder), final)  # fails if another run has written it meanwhile
    return final


@contextlib.contextmanager
def _emptied(folder):
    """Empties a folder that this process has locked, and removes it in the end, whatever happens."""
    for name in set(os.listdir(folder)) - {"run.lock"}:
        shutil.rmtree(os.path.join(folder, name))
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # without the lock file, another process may begin


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    source_flags.define_source("source", "What to write", required=True)
    flags.DEFINE_string("name", None, "Data set to make, as NAME[/CONFIG]:VERSION.", required=True)
    flags.DEFINE_string("data_dir", None, "TFDS folder to write to.", required=True)
    flags.DEFINE_list("splits", ["train=train"], "Splits to write, each from a split or slice of the source.")
    source_flags.define_text_fields("text_fields", "Text fields of the source to write.", ["text"])
    flags.DEFINE_alias("fields", "text_fields")  # the older name
    flags.DEFINE_string("label_field", "", "Field of the source that holds the class; empty for none.")
    source_flags.define_data_dir("source_data_dir")


def main(_):
    """Reads the flags, writes the data set, says where."""
    args = flags.FLAGS
    splits = dict(part.split("=", 1) for part in args.splits if "=" in part)
    if len(splits) != len(args.splits):
        raise ValueError(f"`splits` must be NAME=SPLIT pairs with different names. Received: {args.splits}")
    folder = prepare(
        args.source,
        args.name,
        args.data_dir,
        splits,
        tuple(args.text_fields),
        args.label_field,
        args.source_data_dir,
    )
    print(f"{folder}: {', '.join(splits)}")


if __name__ == "__main__":
    define_flags()
    programs.run(main)
