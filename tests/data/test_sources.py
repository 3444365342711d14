"""Sources of files: what is read, in which order, and one clear line where it cannot be."""

import concurrent.futures
import gzip
import itertools
import json
import os
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from convnlp.data import (
    Label,
    Number,
    Shard,
    Source,
    SourceError,
    files,
    formats,
    opening,
    source_error_message,
    sources,
)
from convnlp.data.labels import Cell, have_order
from convnlp.data.schema import Group, Schema
from tests import corpus

ROWS = corpus.reviews(200)
_CLASS = r"`label` must be an integer in \[0, 2\). Received:"


def texts(name, split="train", **kwargs):
    examples = sources.read(Source(name, split), **kwargs)
    return [example["text"].decode() for example in examples.as_numpy_iterator()]


def test_jsonl_plain_and_gzip_hold_the_same(tmp_path):
    plain, packed = (corpus.write_jsonl(tmp_path / name, ROWS) for name in ("a.jsonl", "a.jsonl.gz"))
    for path in (plain, packed, f"file://{plain}", f"file://{packed}"):
        examples = list(sources.read(Source(f"jsonl:{path}"), label=Label(num_classes=2)).as_numpy_iterator())
        assert [{"text": e["text"].decode(), "label": e["label"]} for e in examples] == ROWS


def test_text_is_split_at_blank_lines(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffone\ntwo\n\n \n\nthree é".encode())
    (tmp_path / "b.txt").write_bytes(b"\n\nfour\r\n\r\nfive\n")
    assert texts(f"text:{tmp_path}/a.txt") == ["one\ntwo", "three é"]
    assert texts(f"text:{tmp_path}/b.txt") == ["four", "five"]


def test_a_long_text_is_cut_at_the_end_of_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(formats.text, "DOCUMENT_BYTES", 8)
    (tmp_path / "a.txt").write_text("a line\nof text\nand more\n")
    assert texts(f"text:{tmp_path}/a.txt") == ["a line\nof text", "and more"]


def test_blank_lines_of_jsonl_are_skipped(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n\n{"text": "two"}\n \n')
    assert texts(f"jsonl:{tmp_path}/a.jsonl") == ["one", "two"]


def test_blocks_do_not_change_what_is_read(tmp_path, monkeypatch):
    path = corpus.write_jsonl(tmp_path / "a.jsonl", ROWS)
    whole = texts(f"jsonl:{path}")
    monkeypatch.setattr(files, "BLOCK_BYTES", 300)
    assert texts(f"jsonl:{path}") == whole
    assert len(list(sources.read_blocks(Source(f"jsonl:{path}")))) > 10


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_files_are_mixed_by_size(tmp_path, suffix):
    rng = np.random.default_rng(0)  # texts of equal size that do not compress
    for name, count in [("large", 4000), ("small", 1000)]:
        rows = [{"text": f"{name} {rng.bytes(50).hex()}"} for _ in range(count)]
        corpus.write_jsonl(tmp_path / f"{name}.jsonl{suffix}", rows)
    is_large = np.array([text.startswith("large") for text in texts(f"jsonl:{tmp_path}/*")])
    assert len(is_large) == 5000
    # A compressed file is read 8 kB at a time, here 140 records: its share of a fifth is not exact.
    for part in np.split(is_large, 5):
        assert abs(part.sum() - 800) <= (200 if suffix else 2)


def test_many_files_are_read_in_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "OPEN_FILES", 2)
    for i in range(5):
        corpus.write_jsonl(tmp_path / f"{i}.jsonl", ROWS[i::5])
    assert sorted(texts(f"jsonl:{tmp_path}/*.jsonl")) == sorted(row["text"] for row in ROWS)


def test_the_first_of_many_files_are_not_the_first_names(tmp_path, monkeypatch):
    """Files that are sorted by name are often sorted by what they hold."""
    monkeypatch.setattr(files, "OPEN_FILES", 3)
    for name in "abcdefgh":
        corpus.write_jsonl(tmp_path / f"{name}.jsonl", [{"text": name}])
    assert texts(f"jsonl:{tmp_path}/*.jsonl") == [*"adg", *"beh", *"cf"]


def test_files_behind_urls_are_asked_about_side_by_side():
    """Here each waits for the other one; the first error counts, as in a loop."""
    both = threading.Barrier(2)

    def asked(path):
        both.wait(timeout=60)
        return path[-1]

    assert files.of_each(asked, ["gs://b/1", "gs://b/2"]) == ["1", "2"]

    def refused(path):
        raise ValueError(path)

    for paths in (["gs://b/1", "gs://b/2"], ["1", "2"]):
        with pytest.raises(ValueError, match=r"1$"):
            files.of_each(refused, paths)


def test_a_name_with_brackets_is_a_name(tmp_path):
    corpus.write_jsonl(tmp_path / "a[1].jsonl", ROWS[:3])
    assert texts(f"jsonl:{tmp_path}/a[1].jsonl") == [row["text"] for row in ROWS[:3]]
    corpus.write_jsonl(tmp_path / "a1.jsonl", ROWS[3:5])  # what the pattern matches comes first
    assert texts(f"jsonl:{tmp_path}/a[1].jsonl") == [row["text"] for row in ROWS[3:5]]


def test_hidden_files_are_found_by_their_dot_alone(tmp_path):
    """Such as those that macOS and NFS leave in a folder of data."""
    for name in ("a.jsonl", "._a.jsonl", ".cache/b.jsonl", "c/d.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        corpus.write_jsonl(tmp_path / name, [{"text": name}])
    assert texts(f"jsonl:{tmp_path}/*.jsonl") == ["a.jsonl"]
    assert texts(f"jsonl:{tmp_path}//./*/*.jsonl") == ["c/d.jsonl"]
    assert texts(f"jsonl:file://{tmp_path}/*.jsonl") == ["a.jsonl"]
    assert texts(f"jsonl:{tmp_path}/.*.jsonl") == ["._a.jsonl"]
    assert texts(f"jsonl:{tmp_path}/.cache/*") == [".cache/b.jsonl"]
    (tmp_path / "c" / "d.jsonl").rename(tmp_path / "c" / ".d.jsonl")
    with pytest.raises(SourceError, match="no such file"):
        texts(f"jsonl:{tmp_path}/c/*")


@pytest.mark.parametrize("split", ["train", "train[1:]"])
def test_records_come_file_by_file(tmp_path, split):
    """A program that writes a row for each of them is asked which row is whose."""
    for name, count in [("b", 2), ("a", 5)]:
        corpus.write_jsonl(tmp_path / f"{name}.jsonl", [{"text": f"{name}{i}"} for i in range(count)])
    found = [text.decode() for _, (text,) in sources.records(Source(f"jsonl:{tmp_path}/*.jsonl", split))]
    expected = {"train": "a0 a1 a2 a3 a4 b0 b1", "train[1:]": "a1 a2 a3 a4 b1"}
    assert found == expected[split].split()


def test_split_in_the_path(tmp_path):
    corpus.write_jsonl(tmp_path / "a.train.jsonl", ROWS[:10])
    corpus.write_jsonl(tmp_path / "a.valid.jsonl", ROWS[10:])
    assert texts(f"jsonl:{tmp_path}/a.{{split}}.jsonl", "valid") == [row["text"] for row in ROWS[10:]]
    with pytest.raises(SourceError, match=r"no such file: .*a\.test\.jsonl"):
        sources.read(Source(f"jsonl:{tmp_path}/a.{{split}}.jsonl", "test"))
    with pytest.raises(SourceError, match=r"has no split 'valid': write \{split\}"):
        sources.read(Source(f"jsonl:{tmp_path}/a.train.jsonl", "valid"))


@pytest.mark.parametrize(
    "cuts", [("[:95%]", "[95%:]"), ("[:33%]", "[33%:66%]", "[66%:]"), ("[:-7]", "[-7:]"), ("",)]
)
def test_slices_are_disjoint_and_complete(tmp_path, cuts):
    path = corpus.write_jsonl(tmp_path / "a.jsonl", ROWS)
    parts = [texts(f"jsonl:{path}", f"train{cut}") for cut in cuts]
    assert list(itertools.chain.from_iterable(parts)) == [row["text"] for row in ROWS]
    assert len(parts[0]) == {"[:95%]": 190, "[:33%]": 66, "[:-7]": 193, "": 200}[cuts[0]]


def test_slices_are_taken_of_every_file(documents):
    held_out = texts(documents, "train[:10%]")
    assert set(held_out) == set(corpus.documents(400, seed=1)[:40] + corpus.documents(100, seed=2)[:10])


def test_shards_are_disjoint_and_complete(documents):
    shards = [texts(documents, shard=Shard(3, i)) for i in range(3)]
    assert sorted(itertools.chain.from_iterable(shards)) == sorted(texts(documents))
    assert [len(shard) for shard in shards] == [167, 167, 166]


def test_two_iterators_and_a_restored_one_agree(documents, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK_BYTES", 300)
    dataset = sources.read(Source(documents))
    expected = list(dataset.as_numpy_iterator())
    first, second = iter(dataset), iter(dataset)
    for i in range(200):
        assert next(first)["text"] == next(second)["text"] == expected[i]["text"]
    path = tf.train.Checkpoint(iterator=first).write(str(tmp_path / "checkpoint"))
    again = iter(sources.read(Source(documents)))  # as in a new process: no open file is known
    tf.train.Checkpoint(iterator=again).read(path)
    assert [example["text"] for example in again] == [example["text"] for example in expected[200:]]


def test_iterators_in_several_threads_read_one_after_the_other(documents, monkeypatch):
    """tf.data reads ahead in threads; a stream that two of them continued at once would lose blocks."""
    inside, counts, next_block = [], [], files._next_block

    def slow(stream):
        inside.append(stream)
        counts.append(len(inside))
        time.sleep(0.01)  # lets the other threads run
        inside.pop()
        return next_block(stream)

    monkeypatch.setattr(files, "BLOCK_BYTES", 3000)
    monkeypatch.setattr(files, "_next_block", slow)
    stream = opening.stream_of(Source(documents), Schema(("text",)))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(blocks_of, [stream] * 4)
    assert len(first) > 10
    assert others == [first] * 3
    assert {*counts} == {1}


def blocks_of(stream):
    return list(itertools.takewhile(bool, map(stream.block, itertools.count())))


GOOD = b'{"text": "one", "label": 1}\n'
BAD_RECORDS = {
    "not UTF-8": (b'{"text": "\xff", "label": 1}\n', r"not UTF-8 \(byte 11 of the line\)"),
    "not JSON": (b'{"text": "one", "label": 1\n', "not JSON"),
    "not an object": (b'"one"\n', "not a JSON object: 'one'$"),
    "a list": (
        b'["one", 1]\n',
        r"not a JSON object: \['one', 1\]; for an array of objects, .*: jq -c \.\[\]",
    ),
    "the first line of an array": (
        b"[\n",
        r"not JSON \(.*\); for an array of objects, write one object per line",
    ),
    "no text": (b'{"sentence": "one", "label": 1}\n', r"no field 'text' \(available: 'sentence', 'label'\)"),
    "text of another type": (b'{"text": 3, "label": 1}\n', "`text` must be a string. Received: 3"),
    "half a surrogate pair": (
        b'{"text": "a\\ud800", "label": 1}\n',
        "half of a surrogate pair at character 2",
    ),
    "no label": (b'{"text": "one"}\n', "no field 'label'"),
    "label out of range": (b'{"text": "one", "label": 2}\n', _CLASS + " 2"),
    "negative label": (b'{"text": "one", "label": -1}\n', _CLASS + " -1"),
    "label of another type": (
        b'{"text": "one", "label": "1"}\n',
        _CLASS + r" '1'",
    ),
    "list as label": (b'{"text": "one", "label": [1]}\n', _CLASS + r" \[1\]"),
    "null as label": (b'{"text": "one", "label": null}\n', _CLASS + r" None"),
    "float as label": (b'{"text": "one", "label": 1.0}\n', _CLASS + r" 1.0"),
    "NaN as label": (b'{"text": "one", "label": NaN}\n', _CLASS + r" nan"),
    "huge label": (
        b'{"text": "one", "label": 1%s}\n' % (b"0" * 4000),
        _CLASS + r" 1000\d*\.\.\.0+",
    ),
    "a number nobody can read": (b'{"text": "one", "label": 1%s}\n' % (b"0" * 9000), "limit"),
    "field twice": (b'{"text": "one", "label": 1, "label": 0}\n', "field 'label' appears twice"),
    "deep JSON": (b'{"text": %s1%s}\n' % (b"[" * 10**5, b"]" * 10**5), "the JSON is nested too deeply"),
    "less deep JSON": (b'{"text": %s1%s}\n' % (b"[" * 900, b"]" * 900), "`text` must be a string. Received:"),
    "many fields": (
        b"{%s}\n" % b", ".join(b'"field %d": 0' % i for i in range(10**4)),
        r"no field 'text' \(available: ('field \d', ){10}\.\.\.\)",
    ),
    "boolean label": (b'{"text": "one", "label": true}\n', _CLASS + r" True"),
}


@pytest.mark.parametrize("num_good", [0, 200])  # found when the source is opened, and inside tf.data
@pytest.mark.parametrize("name", BAD_RECORDS)
def test_a_bad_record_is_one_line_with_its_place(tmp_path, name, num_good):
    record, message = BAD_RECORDS[name]
    path = tmp_path / "a.jsonl"
    path.write_bytes(GOOD * num_good + record + GOOD)
    with pytest.raises((SourceError, tf.errors.OpError)) as caught:
        list(sources.read(Source(f"jsonl:{path}"), label=Label(num_classes=2)))
    line = source_error_message(caught.value)
    assert line.startswith(f"{path}, line {num_good + 1}: ")
    assert "\n" not in line
    assert len(line) < 300 + len(str(path))
    with pytest.raises(SourceError, match=message):
        raise SourceError(line)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.txt"])
def test_a_line_without_end_is_not_read_to_its_end(tmp_path, name, monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1 << 20)
    pack = gzip.compress if name.endswith(".gz") else bytes
    path, read = tmp_path / name, []
    path.write_bytes(pack(GOOD + b"\n" + b"x" * (1 << 23)))
    error = files.Record.error
    monkeypatch.setattr(files.Record, "error", lambda r, why: read.append(len(r.data)) or error(r, why))
    with pytest.raises(SourceError, match=f"^{path}, line 3: the line is longer than 1 MiB$"):
        sources.check(Source(f"{'text' if name == 'a.txt' else 'jsonl'}:{path}"))
    assert read == [(1 << 20) + 1]


def test_what_is_no_file(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(SourceError, match=r"folder is a directory; name its files, for example .*folder/\*"):
        sources.read(Source(f"jsonl:{tmp_path}/folder"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match="pipe must be a regular file, because it is read more than once"):
        sources.read(Source(f"jsonl:{tmp_path}/pipe"))


@pytest.mark.parametrize(
    ("split", "shard", "message"),
    [
        ("train[:5%]", Shard(), r"a.jsonl: split train\[:5%\] contains none of the 3 records$"),
        ("train[1000:]", Shard(), r"split train\[1000:\] contains none"),
        ("train[2:1]", Shard(), r"split train\[2:1\] contains none"),
        ("train", Shard(4, 3), "split train contains none of the 3 records for worker 3 of 4"),
        ("train[:250%]", Shard(), "`split` must have percentages of at most 100"),
    ],
)
def test_what_leaves_no_record(tmp_path, split, shard, message):
    path = corpus.write_jsonl(tmp_path / "a.jsonl", ROWS[:3])
    with pytest.raises(SourceError, match=message):
        sources.read(Source(f"jsonl:{path}", split), shard=shard)


def test_the_records_of_a_file_are_counted_once(tmp_path, monkeypatch):
    path = corpus.write_jsonl(tmp_path / "a.jsonl", ROWS)
    opened, stored = [], files.stored.open_stored
    monkeypatch.setattr(files.stored, "open_stored", lambda path: opened.append(path) or stored(path))
    dataset = sources.read(Source(f"jsonl:{path}", "train[50%:]")).repeat(3)
    assert len(list(dataset)) == 300
    # The first record, the count, the look for a record of the slice, and then once per epoch.
    assert opened == [path] * 6


def test_every_row_is_checked(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    path.write_bytes(GOOD * 500 + b"broken\n")
    source = Source(f"jsonl:{path}")
    with pytest.raises(SourceError, match=f"^{path}, line 501: not JSON"):
        sources.check(source)
    sources.check(source, shard=Shard(2, 1))  # the other worker reads that line
    with pytest.raises(
        SourceError, match=rf"^{path}, line 1: `label` must be an integer in \[0, |no field 'topic'"
    ):
        sources.check(source, label=Label("topic", num_classes=2))
    monkeypatch.setattr(sources, "CHECKED_BYTES", 10 * len(GOOD))
    sources.check(source)


def test_a_bad_document_of_a_text_names_its_first_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n\ntwo\n\xe9\n")
    with pytest.raises(tf.errors.OpError) as caught:
        list(sources.read(Source(f"text:{path}")))
    assert source_error_message(caught.value) == f"{path}, line 3: not UTF-8 (byte 5 of the document)"


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "blank.jsonl"])
def test_an_empty_file_is_named(tmp_path, name):
    data = b"\n \n" if name.startswith("blank") else b""
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    corpus.write_jsonl(tmp_path / "b.jsonl", ROWS)
    with pytest.raises(SourceError, match=f"{name}: the file is empty"):
        sources.read(Source(f"jsonl:{tmp_path}/*"))


def test_a_zero_byte_file_that_says_gzip_is_empty(tmp_path):
    (tmp_path / "a.jsonl.gz").touch()
    with pytest.raises(SourceError, match="the file is empty"):
        sources.read(Source(f"jsonl:{tmp_path}/a.jsonl.gz"))


DAMAGE = {
    "truncated": (lambda data: data[: len(data) * 3 // 4], "cannot be read: Compressed file ended before"),
    "overwritten": (lambda data: data[:3000] + bytes(50) + data[3050:], "cannot be read|not JSON|not UTF-8"),
    "no gzip at all": (lambda data: b"text", "line 1: cannot be read: Not a gzipped file"),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_corrupt_gzip_file_is_named(tmp_path, how):
    rng = np.random.default_rng(0)  # text that does not compress, so that damage is far from the beginning
    lines = [json.dumps({"text": rng.bytes(50).hex()}) for _ in range(2000)]
    path = tmp_path / "a.jsonl.gz"
    damage, message = DAMAGE[how]
    path.write_bytes(damage(gzip.compress("\n".join(lines).encode())))
    with pytest.raises((SourceError, tf.errors.OpError)) as caught:
        list(sources.read(Source(f"jsonl:{path}")))
    line = source_error_message(caught.value)
    assert line.startswith(f"{path}, line ")
    with pytest.raises(SourceError, match=message):
        raise SourceError(line)


@pytest.mark.parametrize("source", ["", "jsonl", "jsonl:", "xls:a.xls", "csv:", "c4/en", "tfds:"])
def test_a_source_of_no_known_kind(source):
    with pytest.raises(SourceError, match="`source` must be one of tfds:NAME, jsonl:GLOB"):
        sources.read(Source(source))


@pytest.mark.parametrize(
    ("source", "meant"),
    [
        ("a.csv", "csv:a.csv"),
        ("CSV:a.csv", "csv:a.csv"),
        ("json:folder/a.json.gz", "jsonl:folder/a.json.gz"),
        ("gs://bucket/a.parquet", "parquet:gs://bucket/a.parquet"),
    ],
)
def test_the_kind_of_a_source_is_guessed(source, meant):
    with pytest.raises(SourceError, match=f"Received: '{source}'; did you mean {meant}[?]$"):
        Source(source)


@pytest.mark.parametrize(
    "split", ["", "train[", "train[5]", "train[5%]", "train[:x]", "train+valid", "train[:5%"]
)
def test_a_split_of_no_known_form(documents, split):
    with pytest.raises(SourceError, match="`split` must be a name with an optional slice"):
        Source(documents, split)


def test_wrong_arguments(documents):
    with pytest.raises(ValueError, match=r"`index` must be an integer in \[0, 2\). Received: index=2"):
        Shard(2, 2)
    with pytest.raises(ValueError, match="`fields` must name at least one field"):
        sources.read(Source(documents), fields=())


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["b", "a", "b"], ("a", "b")),
        ([0, 2, 1], ("0", "1", "2")),
        ([f"c{i}" for i in range(60)], tuple(sorted(f"c{i}" for i in range(60)))),
    ],
)
def test_label_names(tmp_path, values, names):
    assert sources.label_names(labelled(tmp_path, values)) == names


def labelled(folder, values):
    rows = [{"text": "x", "label": value} for value in values]
    return Source("jsonl:" + corpus.write_jsonl(folder / "a.jsonl", rows))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0, 1, True], "line 3: `label` must be all strings or all integers. Received: 'True' after 0"),
        ([0, 1, 0.5], r"integer >= 0; task.label_threshold=0.5 .*, finetune learns numbers. Received: 0.5"),
        ([0, 1, None], "line 3: `label` must be a string or an integer >= 0. Received: None"),
        ([0, 1, [1, 2]], r"integer >= 0; with task.kind=multi_label, .* Received: \[1, 2\]"),
        ([0, 1, {"a": 1}], "line 3: `label` must be a string or an integer >= 0. Received: {'a': 1}"),
        ([0, 1, -1], "line 3: `label` must be a string or an integer >= 0. Received: -1"),
        (["a", "b", ""], "line 3: `label` must be a string or an integer >= 0. Received: ''"),
        (["a", "b", "c\ud83d"], "line 3: label holds half of a surrogate pair at character 2"),
        ([0, 1, "a"], "line 3: `label` must be all strings or all integers. Received: 'a' after 0"),
        ([*range(6), 100_000, 3], "line 7: label 100000 would make 100001 classes, of which only 7 have"),
        ([0, 10**20, 1], "line 2: label 100000000000000000000 would make 100000000000000000001 classes"),
        ([0, 0, 0], "`label` must have at least two classes. Received: \\[0\\]"),
        (
            [f"a title {i}" for i in range(150)],
            "label has 150 different strings in 150 examples",
        ),
        (
            [*range(1, 151)],  # such as the numbers of tickets
            "label has 150 different integers in 150 examples; if they are classes, list them in label_names",
        ),
    ],
)
def test_labels_that_make_no_classes(tmp_path, values, message):
    with pytest.raises(SourceError, match=message) as caught:
        sources.label_names(labelled(tmp_path, values))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("values", "unused"), [([1, 2, 3, 4, 5], "0"), ([0, 1, 2, 4], "3")])
def test_a_class_without_examples_is_reported(tmp_path, values, unused, caplog):
    assert len(sources.label_names(labelled(tmp_path, values))) == max(values) + 1
    assert f"1 class has no example: {unused}" in caplog.text


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_numbers_that_begin_with_1_may_be_names(tmp_path, caplog, kind):
    source = labelled(tmp_path, [1, 3, 2])
    if kind == "csv":
        (tmp_path / "stars.csv").write_text("text,label\na,1\nb,3\nc,2\n")
        source = Source(f"csv:{tmp_path}/stars.csv")
    assert sources.label_names(source) == ("0", "1", "2", "3")
    advice = "1 class has no example: 0; for 1 to 3 alone, list them in label_names"
    assert caplog.text.rstrip().endswith(advice)
    for names, classes in {("1", "2", "3"): [0, 2, 1], ("2", "1", "3"): [1, 2, 0]}.items():
        label = Label(names=names)
        assert [int(row["label"]) for row in sources.read(source, label=label)] == classes
        sources.check(source, label=label)
    with pytest.raises(SourceError, match="label '1' is not one of the 2 classes"):
        sources.check(source, label=Label(names=("2", "3")))


def test_integers_are_places_among_names_that_are_none(tmp_path):
    source = labelled(tmp_path, [1, 0, 2])
    rows = sources.read(source, label=Label(names=("bad", "fair", "good")))
    assert [int(row["label"]) for row in rows] == [1, 0, 2]


@pytest.mark.parametrize("value", [1, Cell("1"), Cell(" 1 ")], ids=repr)
def test_integers_are_no_places_among_names_in_no_order(value):
    names = "bad", "fair", "good"
    assert Label(names=names).class_of(value) == 1
    with pytest.raises(ValueError, match=r"label 1 is not one of the 3 classes .*, in the order of the int"):
        Label(names=names, has_order=False).class_of(value)
    assert Label(names=names, has_order=False).class_of("fair") == 1
    assert Label(names=("0", "1"), by_name=True, has_order=False).class_of(value) == 1


def test_names_that_are_found_in_a_file_are_in_no_order():
    assert not have_order(("bad", "fair", "good"))
    assert have_order(("bad", "fair", "good"), given=("bad", "fair", "good"))
    assert have_order(("World", "Sports", "Business"))  # which only data that store names can give


def test_labels_by_name_and_by_threshold(tmp_path):
    rows = [
        {"text": "x", "label": label, "toxicity": share}
        for label, share in [("b", 0.5), ("a", 0.4), ("b", 1)]
    ]
    path = corpus.write_jsonl(tmp_path / "a.jsonl", rows)

    def classes(label):
        return [int(example["label"]) for example in sources.read(Source(f"jsonl:{path}"), label=label)]

    assert classes(Label(names=("a", "b"))) == [1, 0, 1]
    assert classes(Label("toxicity", threshold=0.5)) == [1, 0, 1]
    with pytest.raises(SourceError, match=r"label 'b' is not one of the 2 classes \['.', '.'\]$"):
        classes(Label(names=("a", "c")))


@pytest.mark.parametrize(
    ("value", "shown", "meant"),
    [
        (" Café", "' Café'", "'Café'"),
        ("cafÉ", "'cafÉ'", "'Café'"),
        ("Cafe\u0301", r"'Cafe\u0301'", r"'Caf\xe9'"),  # e and its accent apart
        ("Café\u200b", r"'Caf\xe9\u200b'", r"'Caf\xe9'"),  # a space that cannot be seen
        (Cell("1.0"), "'1.0'", "'1'"),
    ],
)
def test_a_name_that_looks_like_a_class_is_told_apart_from_it(value, shown, meant):
    with pytest.raises(ValueError, match="is not one of") as caught:
        Label(names=("Café", "1")).class_of(value)
    known = "the 2 classes ['Café', '1']"
    assert str(caught.value) == f"label {shown} is not one of {known}; did you mean {meant}?"


@pytest.mark.parametrize("values", [[1, 0], [True, False], [0.5, 2.0], ["b", "ä"]], ids=repr)
def test_any_single_value_names_a_group(tmp_path, values):
    (tmp_path / "a.csv").write_text("".join(f"{value}\n" for value in ["label", *values]), encoding="utf-8")
    for source in (labelled(tmp_path, values), Source(f"csv:{tmp_path}/a.csv")):
        rows = sources.read(source, (), Group("label"))
        assert [row["label"].numpy().decode() for row in rows] == [*map(str, values)]


def test_a_list_names_no_group(tmp_path):
    message = r"line 1: `label` must be a string, a number or a boolean. Received: \[1\]"
    with pytest.raises(SourceError, match=message):
        sources.read(labelled(tmp_path, [[1]]), (), Group("label"))


def test_with_a_threshold_a_cell_is_a_number_and_no_name(tmp_path):
    path = tmp_path / "stars.csv"
    path.write_text("text,stars\na,1\nb,3\nc,0\nd,4.5\n")
    label = Label("stars", names=("0", "1"), threshold=3)
    assert [int(row["label"]) for row in sources.read(Source(f"csv:{path}"), label=label)] == [0, 1, 0, 1]


def test_booleans_are_names_as_in_a_table(tmp_path):
    source = labelled(tmp_path, [True, False, True])
    names = sources.label_names(source)
    assert names == ("False", "True")
    rows = sources.read(source, label=Label("label", names=names))
    assert [int(row["label"]) for row in rows] == [1, 0, 1]
    (tmp_path / "a.csv").write_text("text,label\nx,True\nx,False\n")
    assert sources.label_names(Source(f"csv:{tmp_path}/a.csv")) == names
    with pytest.raises(ValueError, match="stars 'True' is not one of the 2 classes"):
        Label("stars", names=("a", "b")).class_of(True)


@pytest.mark.parametrize("value", ["1", "many", None, True, Cell("many")])
def test_with_a_threshold_only_a_number_will_do(value):
    with pytest.raises(ValueError, match=rf"`stars` must be a finite number\. Received: {value!r}"):
        Label("stars", names=("0", "1"), threshold=0.5).class_of(value)


@pytest.mark.parametrize(
    "arguments", [{}, {"num_classes": 3, "names": ("a", "b")}, {"num_classes": 3, "threshold": 0.5}]
)
def test_a_label_says_what_its_classes_are(arguments):
    with pytest.raises(
        ValueError, match="A label must have `num_classes`, `names` or `threshold`, and they must agree"
    ):
        Label(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": ("a", "b", "a")}, "`label_names` must be a sequence of at least 2 different values"),
        ({"names": ("a",)}, "`label_names` must be a sequence of at least 2 different values"),
        ({"names": ("a", "")}, "`label_names` must be"),
        ({"names": "ab"}, "`label_names` must be"),
        ({"num_classes": 1}, "`num_classes` must be an integer >= 2. Received: num_classes=1"),
        ({"num_classes": True}, "`num_classes` must be an integer >= 2"),
        ({"num_classes": 2.0}, "`num_classes` must be an integer >= 2"),
        ({"threshold": float("nan")}, "`label_threshold` must be a number in"),
        ({"field": "", "num_classes": 2}, "`label field` must be a non-empty string"),
    ],
)
def test_a_label_is_what_it_says(arguments, message):
    with pytest.raises(ValueError, match=message):
        Label(**arguments)


@pytest.mark.parametrize("share", [float("nan"), float("inf"), 1e999])
def test_a_fraction_is_a_number(share):
    with pytest.raises(ValueError, match=r"`label` must be a finite number\. Received:"):
        Label(threshold=0.5).class_of(share)


@pytest.mark.parametrize("value", [True, "4.5", None, float("nan"), float("-inf"), 1e39, 10**400, [1.0]])
def test_what_is_no_number_is_no_label(value):
    with pytest.raises(ValueError, match=r"`stars` must be a finite number. Received: "):
        Number("stars").parse(value)


def test_a_decimal_comma_is_named():
    message = "`stars` must be a finite number, with a point before its decimals. Received: '3,5'"
    for label in (Number("stars"), Label("stars", threshold=0.5)):
        with pytest.raises(ValueError, match=f"^{message}$"):
            label.parse(Cell("3,5"))
    with pytest.raises(ValueError, match=r"must be a finite number\. Received: 'a fine day, and"):
        Number("stars").parse(Cell("a fine day, and a long one"))


def test_numbers_are_labels_of_float32(tmp_path):
    values = [4.5, -1, 0, 3.4e38]
    path = corpus.write_jsonl(tmp_path / "a.jsonl", [{"text": "a", "stars": value} for value in values])
    found = [example["label"] for example in sources.read(Source(f"jsonl:{path}"), label=Number("stars"))]
    assert {label.dtype.name for label in found} == {"float32"}
    np.testing.assert_array_equal(found, np.array(values, "float32"))
    corpus.write_jsonl(path, [{"text": "a", "stars": 1}, {"text": "b", "stars": "many"}])
    with pytest.raises(SourceError, match=r"line 2: `stars` must be a finite number. Received: 'many'"):
        sources.check(Source(f"jsonl:{path}"), label=Number("stars"))
