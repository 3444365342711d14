"""The files of a bulk prediction: rows as JSON lines or TFRecord; each file is complete or absent.

A row is {"file", "line", "input": the fields of the example, and each output of the model by its name}. As a
tf.Example, it has the features "file", "line", "input/FIELD" and the outputs; texts are bytes, fractions are
float32, since it has no others, and fields other than texts, numbers and lists of these are JSON.
"""

import contextlib
import json
import uuid

import tensorflow as tf

from convnlp.prediction.rows import as_json, json_line

FORMATS = ("jsonl", "tfrecord")
PARTS = ("file", "line", "input")  # of a row, besides the model's outputs
PARTIAL = ".partial-"  # in the names of files that are being written


def is_done(folder, shard, format):
    """Returns whether the predictions of a shard are complete.

    Args:
        folder: string, that of all predictions.
        shard: string, its name.
        format: one of `FORMATS`.
    """
    return tf.io.gfile.exists(_predictions(folder, shard, format))


def num_bad(folder, shard):
    """Returns the number of bad lines in a shard that is done."""
    path = _bad(folder, shard)
    if not tf.io.gfile.exists(path):
        return 0
    with tf.io.gfile.GFile(path, "rb") as file:
        return sum(1 for _ in file)


def write_shard(folder, shard, format, rows, bad):
    """Writes the bad lines of a shard, if any, and then its predictions, which mark it as done.

    Args:
        folder: string, that of all predictions.
        shard: string, its name.
        format: one of `FORMATS`.
        rows: list of dicts, as from `row`.
        bad: list of dicts, which say of each bad line where it is and what is wrong.
    """
    if bad:
        write_rows(_bad(folder, shard), "jsonl", bad)
    write_rows(_predictions(folder, shard, format), format, rows)


def row(file, line, fields, outputs):
    """Returns a row as above, a dict; bytes that are not text become {"b64": ...}.

    Args:
        file: string.
        line: int.
        fields: dict of JSON values.
        outputs: dict, name -> NumPy value, or bytes.

    Raises:
        ValueError: if an output has the name of a part of the row.
    """
    check_names(outputs)
    return dict(zip(PARTS, (file, line, fields), strict=True)) | as_json(outputs)


def check_names(outputs):
    """Raises ValueError if an output, of an iterable of names, has the name of a part of the row."""
    if taken := sorted(set(PARTS) & set(outputs)):
        raise ValueError(f"the model's outputs must not be named file, line or input. Received: {taken}")


def write_rows(path, format, rows):
    """Writes rows to a file that appears once it is complete.

    Args:
        path: string.
        format: "jsonl" or "tfrecord".
        rows: iterable of dicts.
    """
    partial = f"{path}{PARTIAL}{uuid.uuid4().hex}"
    try:
        if format == "jsonl":
            with tf.io.gfile.GFile(partial, "wb") as file:
                file.write(b"")  # without a write there would be no file
                for found in rows:
                    file.write(json_line(found))
        else:
            with tf.io.TFRecordWriter(partial) as writer:
                for found in rows:
                    writer.write(example(found).SerializeToString(deterministic=True))
        tf.io.gfile.rename(partial, path, overwrite=True)
    except BaseException:
        if tf.io.gfile.exists(partial):
            tf.io.gfile.remove(partial)
        raise


def example(found):
    """Returns the tf.Example of a row."""
    fields = {f"input/{name}": value for name, value in found["input"].items()}
    features = {name: value for name, value in found.items() if name != "input"} | fields
    # A name may contain half of a surrogate pair, but protobuf's strings may not.
    encoded = {
        name.encode("utf-8", "backslashreplace").decode(): _feature(value) for name, value in features.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=encoded))


def _predictions(folder, shard, format):
    return f"{folder}/predictions-{shard}.{format}"


def _bad(folder, shard):
    return f"{folder}/bad-{shard}.jsonl"


def _feature(value):
    values = value if isinstance(value, list) else [value]
    if not values:  # without a kind, so that it can be read as the kind of other rows
        return tf.train.Feature()
    kinds = {type(item) for item in values}
    if kinds <= {int, bool} and all(-(2**63) <= item < 2**63 for item in values):
        # protobuf 7 takes no bool for an int.
        return tf.train.Feature(int64_list=tf.train.Int64List(value=list(map(int, values))))
    if float in kinds and kinds <= {int, float}:
        with contextlib.suppress(OverflowError):  # an integer beyond the range of floats
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    if kinds != {str}:
        values = [json.dumps(value)]
    encoded = [item.encode("utf-8", "backslashreplace") for item in values]
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=encoded))
