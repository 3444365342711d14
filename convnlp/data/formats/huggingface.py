"""Directories written by `save_to_disk` of Hugging Face's datasets: Arrow files with metadata."""

import glob
import json

import tensorflow as tf

from convnlp.data.errors import SourceError
from convnlp.data.formats import tables
from convnlp.data.stored import open_stored

_SPLITS, _STATE = "dataset_dict.json", "state.json"


class HuggingFace(tables.Table):
    """The splits of a `DatasetDict`, or a `Dataset` as the one split "train"."""

    pattern = "DIR"

    def locate(self, name, split):
        folder = name.replace("{split}", split).rstrip("/")
        if splits := _read(f"{folder}/{_SPLITS}"):
            names = splits.get("splits", [])
            if split not in names:
                raise SourceError(f"hf:{folder} has no split {split!r} (available: {', '.join(names)})")
            folder = f"{folder}/{split}"
        elif split != "train" and "{split}" not in name:
            raise SourceError(
                f"hf:{folder} has no split {split!r}: it is a single data set, whose split is 'train'"
            )
        state = _read(f"{folder}/{_STATE}")
        if state is None:
            raise SourceError(
                f"hf:{folder} must be a directory written by save_to_disk; it has neither {_STATE} "
                f"nor {_SPLITS}"
            )
        if state.get("_indices_data_files") or state.get("_indices_files"):
            raise SourceError(
                f"hf:{folder} holds a selection of rows; call flatten_indices() and save it again"
            )
        try:
            names = [each["filename"] for each in state["_data_files"]]
        except (KeyError, TypeError):
            names = []
        if not names:
            raise SourceError(f"{folder}/{_STATE}: must name the files of the data set in _data_files")
        # Not all there is: `map` and `filter` leave cache-*.arrow, and a larger data set its last files.
        return [glob.escape(f"{folder}/{name}") for name in names]

    def has_splits(self, name):
        return True

    def records(self, file, fields):
        with tables.reading(file.path) as arrow, file.opened() as stored:
            stream = arrow.ipc.open_stream(stored)
            names = tables.columns(file.path, stream.schema, fields)
            for record in tables.rows(file.path, stream, names):
                file.progress = stored.tell() / file.size
                yield record

    def class_names(self, path, field):
        with tables.reading(path) as arrow, open_stored(path) as file:
            metadata = arrow.ipc.open_stream(file).schema.metadata or {}
        features = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
        feature = features.get(field, {})
        if isinstance(feature, list):  # several labels in one field
            feature = feature[0]
        feature = feature.get("feature", feature)
        return tuple(feature["names"]) if feature.get("_type") == "ClassLabel" else None


def holds_splits(folder):
    """Returns whether a directory holds a `DatasetDict`, and not one `Dataset`."""
    return tf.io.gfile.exists(f"{folder}/{_SPLITS}")


def _read(path):
    """Returns the object in a JSON file, a dict; None if there is no such file."""
    if not tf.io.gfile.exists(path):
        return None
    try:
        with tf.io.gfile.GFile(path) as file:
            found = json.load(file)
    except (ValueError, tf.errors.OpError) as error:
        raise SourceError(f"{path}: cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise SourceError(f"{path}: cannot be read: it does not hold a JSON object")
    return found
