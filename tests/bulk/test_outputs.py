"""The files that are written: rows in both formats, whole or not there."""

import json

import numpy as np
import pytest
import tensorflow as tf

from convnlp.bulk import outputs


def row(fields=None, **values):
    return outputs.row("a.jsonl", 7, fields or {"text": "Grüße", "label": 3}, values)


def test_json_rows_keep_the_input_beside_the_outputs(tmp_path):
    path = tmp_path / "rows.jsonl"
    scores = np.array([0.1, 0.9], "float32")
    outputs.write_rows(str(path), "jsonl", [row(label=b"gut", scores=scores)])
    assert path.read_text(encoding="utf-8") == (
        '{"file": "a.jsonl", "line": 7, "input": {"text": "Grüße", "label": 3}, '
        '"label": "gut", "scores": [0.1, 0.9]}\n'
    )
    assert [found.name for found in tmp_path.iterdir()] == ["rows.jsonl"]


def test_every_float32_is_read_back_as_it_was():
    values = np.random.default_rng(0).normal(size=1000).astype("float32")
    assert (np.array(row(scores=values)["scores"], "float32") == values).all()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\xff", {"b64": "/w=="}),
        (np.array([b"a", b"\xff"], object), ["a", {"b64": "/w=="}]),
        (np.int64(5), 5),
        (np.array([[1, 2], [3, 4]], "int32"), [[1, 2], [3, 4]]),
        (np.array(True), True),
    ],
)
def test_values_of_outputs(value, expected):
    assert row(output=value)["output"] == expected


def test_examples_have_a_feature_a_field(tmp_path):
    fields = {
        "text": "a",
        "n": 5,
        "share": 0.5,
        "tags": ["x", "y"],
        "none": None,
        "big": 2**70,
        "of": {"b": 1},
        "vast": [10**400, 0.5],  # the integer is no float, not even infinity
    }
    path = tmp_path / "rows.tfrecord"
    outputs.write_rows(str(path), "tfrecord", [row(fields, label=b"good", scores=np.array([0.25, 0.75]))])
    (record,) = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    feature = tf.train.Example.FromString(record).features.feature
    read = {}
    for name, found in feature.items():
        read[name] = list(getattr(found, found.WhichOneof("kind")).value)
    assert read == {
        "file": [b"a.jsonl"],
        "line": [7],
        "input/text": [b"a"],
        "input/n": [5],
        "input/share": [0.5],
        "input/tags": [b"x", b"y"],
        "input/none": [b"null"],
        "input/big": [str(2**70).encode()],
        "input/of": [b'{"b": 1}'],
        "input/vast": [f"[{10**400}, 0.5]".encode()],
        "label": [b"good"],
        "scores": [0.25, 0.75],
    }


def test_equal_rows_have_equal_bytes(tmp_path):
    """A tf.Example is a map of features, which protobuf writes in the order of its hash table."""
    fields = {f"field {number}": number for number in range(40)}
    for name, names in (("a", fields), ("b", reversed(fields))):
        outputs.write_rows(str(tmp_path / name), "tfrecord", [row({each: fields[each] for each in names})])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_an_empty_list_is_read_as_of_any_kind():
    empty = row({"tags": [], "shares": []}, labels=np.array([], object))
    rows = [row({"tags": ["x"], "shares": [0.5]}), empty]
    kinds = {"input/tags": tf.string, "input/shares": tf.float32, "labels": tf.string}
    read = tf.io.parse_example(
        [outputs.example(each).SerializeToString() for each in rows],
        {name: tf.io.VarLenFeature(kind) for name, kind in kinds.items()},
    )
    assert tf.sparse.to_dense(read["input/tags"]).numpy().tolist() == [[b"x"], [b""]]
    assert tf.sparse.to_dense(read["input/shares"]).numpy().tolist() == [[0.5], [0.0]]
    assert len(read["labels"].values) == 0


def test_truth_values_are_integers_in_a_tf_example():
    fields = {"seen": True, "votes": [True, False, 2]}
    feature = outputs.example(row(fields, flag=np.array(True))).features.feature
    assert list(feature["input/seen"].int64_list.value) == [1]
    assert list(feature["input/votes"].int64_list.value) == [1, 0, 2]
    assert list(feature["flag"].int64_list.value) == [1]


def test_what_the_documentation_says_of_fractions():
    fields = {"time": 1700000000.123, "much": 1e300, "of_integers": 2**60 + 1}
    feature = outputs.example(row(fields, scores=np.array([0.1], "float32"))).features.feature
    assert list(feature["input/time"].float_list.value) == [1700000000]
    assert list(feature["input/much"].float_list.value) == [np.inf]
    assert list(feature["input/of_integers"].int64_list.value) == [2**60 + 1]
    assert np.array(feature["scores"].float_list.value, "float32") == np.array([0.1], "float32")


@pytest.mark.parametrize("format", outputs.FORMATS)
def test_half_of_a_surrogate_pair_does_not_end_a_run(tmp_path, format):
    path = str(tmp_path / "rows")
    outputs.write_rows(path, format, [row({"text": "a", "o\ud800": "\udfff"}, label=b"x")])
    if format == "jsonl":
        with open(path, encoding="utf-8") as file:
            assert json.loads(file.read())["input"] == {"text": "a", "o\ud800": "\udfff"}


@pytest.mark.parametrize("format", outputs.FORMATS)
def test_nothing_is_left_of_a_file_that_could_not_be_written(tmp_path, format):
    def rows():
        yield row(label=b"x")
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        outputs.write_rows(str(tmp_path / "rows"), format, rows())
    assert list(tmp_path.iterdir()) == []


def test_a_shard_is_done_when_its_predictions_are_there(tmp_path):
    folder = str(tmp_path)
    assert not outputs.is_done(folder, "00000-000001", "jsonl")
    bad = [{"file": "a", "line": 1, "reason": "empty line"}] * 2
    outputs.write_shard(folder, "00000-000001", "jsonl", [], bad)
    assert outputs.is_done(folder, "00000-000001", "jsonl")
    assert outputs.num_bad(folder, "00000-000001") == 2
    assert outputs.num_bad(folder, "00000-000002") == 0


def test_an_output_may_not_be_called_as_a_part_of_the_row():
    with pytest.raises(ValueError, match=r"must not be named file, line or input. Received: \['input'\]"):
        row(input=np.array(1))
