"""Reads prepared TFDS data sets as a source; nothing is ever downloaded."""

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from convnlp.data.errors import SourceError
from convnlp.data.source import Split

BLOCK_EXAMPLES = 64


def blocks(source, schema, shard, seed):
    """Reads the examples of a prepared data set in blocks of at most 64; see `sources.read_blocks`.

    Args:
        source: `Source`, of kind "tfds".
        schema: `Schema`. The texts and the label to read.
        shard: `Shard`. The part of the split to read.
        seed: int, to shuffle the files; None keeps the order.

    Raises:
        SourceError: if there is no such field, split or example, or a field has another type.
    """
    name, split = source.path, source.split
    found = builder(name, source.data_dir)
    features = found.info.features
    for field in schema.fields:
        if field not in features:
            there = ", ".join(sorted(features))  # TFDS reads them in any order
            raise SourceError(f"tfds:{name} has no field {field!r} (available: {there})")
    for field in schema.texts:
        if features[field].tf_dtype != tf.string or features[field].shape != ():
            raise SourceError(f"tfds:{name}: {field} must be a text. Received: {features[field]}")
    try:
        part = tfds.even_splits(split, shard.count, drop_remainder=False)[shard.index]
        dataset = found.as_dataset(
            split=part,
            shuffle_files=seed is not None,
            # Other fields would take time, and values of several shapes could not be batched.
            decoders=tfds.decode.PartialDecoding(dict.fromkeys(schema.fields, True)),
            # With a seed, ordered data sets are shuffled too.
            read_config=tfds.ReadConfig(
                shuffle_seed=seed, shuffle_reshuffle_each_iteration=False, enable_ordering_guard=False
            ),
        )
        num_examples = found.info.splits[part].num_examples
    except (ValueError, AssertionError) as error:
        names = ", ".join(found.info.splits)
        raise SourceError(
            f"tfds:{name}: cannot read split {split!r} (available: {names}): {error}"
        ) from error
    if num_examples == 0:
        raise SourceError(f"{source} has no example for worker {shard.index} of {shard.count}")

    of_one = schema.label is not None and isinstance(schema.label.field, str)
    label_fields = schema.fields[len(schema.texts) :]
    for field in label_fields:
        if features[field].shape != ():
            raise SourceError(f"tfds:{name}: {field} must be a single value. Received: {features[field]}")

    def parsed(*columns):
        rows = zip(*map(_values, columns), strict=True)
        try:
            values = [schema.label.parse(row[0] if of_one else row) for row in rows]
            return np.array(values, schema.label.dtype).reshape([-1, *schema.label_shape])
        except ValueError as error:
            raise SourceError(f"{source}: {error}") from error

    @tf.autograph.experimental.do_not_convert
    def block(examples):
        columns = {field: examples[field] for field in schema.texts}
        if schema.label:
            values = [examples[field] for field in label_fields]
            labels = tf.numpy_function(parsed, values, schema.label.dtype)
            columns["label"] = tf.ensure_shape(labels, [None, *schema.label_shape])
        return columns

    options = tf.data.Options()
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    options.deterministic = True
    return dataset.batch(BLOCK_EXAMPLES).map(block).with_options(options)


def _values(column):
    """Returns the values of an array, a list; bytes, in which TFDS has texts, are decoded."""
    return [value.decode() if isinstance(value, bytes) else value for value in column.tolist()]


def label_names(source, field):
    """Returns the class names of a ClassLabel feature, a tuple; raises `SourceError` if it is not one."""
    names = class_names(source, field)
    if names is None:
        feature = _feature(source, field)
        raise SourceError(f"tfds:{source.path}: {field} must be a ClassLabel. Received: {feature}")
    return names


def class_names(source, field):
    """Returns the class names of a feature, a tuple; None if it is not a ClassLabel."""
    feature = _feature(source, field)
    return tuple(feature.names) if isinstance(feature, tfds.features.ClassLabel) else None


def _feature(source, field):
    return dict(builder(source.path, source.data_dir).info.features.items()).get(field)


def bounds(name, split, data_dir):
    """Returns (name of the split, first, end) for a split with a slice; the last two are example indices.

    Raises:
        SourceError: if there is no such split.
    """
    splits = builder(name, data_dir).info.splits
    split = Split.parse(split)
    if split.name not in splits:
        raise SourceError(f"tfds:{name} has no split {split.name!r} (available: {', '.join(splits)})")
    return split.name, *split.bounds(splits[split.name].num_examples)


def slices(source, size):
    """Divides the split of a source into splits of at most `size` examples, a list of strings."""
    name, first, end = bounds(source.path, source.split, source.data_dir)
    return [f"{name}[{start}:{min(start + size, end)}]" for start in range(first, end, size)]


def examples(name, split, first, end, data_dir):
    """Yields the examples with indices in [first, end) as stored, in order: dicts of NumPy values."""
    yield from (
        builder(name, data_dir)
        .as_dataset(
            split=f"{split}[{first}:{end}]",
            read_config=tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False),
        )
        .as_numpy_iterator()
    )


def builder(name, data_dir):
    """Returns the builder of a prepared data set; raises `SourceError` if there is none."""
    try:
        found = tfds.builder(name, data_dir=data_dir or None)
    except (tfds.core.registered.DatasetNotFoundError, ValueError) as error:
        raise SourceError(f"tfds:{name}: TFDS has no data set with this name, config and version") from error
    if not found.is_prepared():
        raise SourceError(
            f"tfds:{name} is not prepared in {found.data_path}; prepare it on a machine with a network by "
            f"`tfds build {name} --data_dir=DIR`, or convert other data with convnlp prepare-tfds"
        )
    return found
