"""Lines, records and shards: everything once, at its right place, cut in the same way each time."""

import datetime
import gzip
import math

import pytest

from convnlp import prepare_tfds
from convnlp.bulk import inputs, lines
from convnlp.data import SourceError, pydocs
from tests import corpus

ROWS = corpus.reviews(25)


def shards(source):
    """All shards of an input, each part read on its own: {name: records}."""
    found = [
        shard for i in range(len(source.paths)) for part in source.parts(i) for shard in source.shards(part)
    ]
    assert len(dict(found)) == len(found)
    return dict(found)


def examples(source):
    """(file, line, fields or the reason why there are none) of all examples."""
    rows = []
    for records in shards(source).values():
        for record in records:
            try:
                rows.append((record.file, record.line, source.fields(record)))
            except ValueError as error:
                rows.append((record.file, record.line, str(error)))
    return rows


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_json_lines_are_cut_into_shards(tmp_path, name):
    path = corpus.write_jsonl(tmp_path / name, ROWS)
    source = inputs.open_input(f"jsonl:{path}", shard_size=10)
    assert {shard: len(records) for shard, records in shards(source).items()} == {
        "00000-000000": 10,
        "00000-000001": 10,
        "00000-000002": 5,
    }
    assert examples(source) == [(path, i, row) for i, row in enumerate(ROWS, 1)]
    # A plain file is read by several workers at once, a packed one by one.
    assert len(list(source.parts(0))) == (1 if name.endswith(".gz") else 3)


def test_files_are_numbered_in_their_order(tmp_path):
    for name in ("b.jsonl", "a.jsonl.gz"):
        corpus.write_jsonl(tmp_path / name, ROWS[:3])
    (tmp_path / "c.jsonl").touch()
    source = inputs.open_input(f"jsonl:{tmp_path}/*.jsonl*", shard_size=2)
    assert [path.rpartition("/")[2] for path in source.paths] == ["a.jsonl.gz", "b.jsonl", "c.jsonl"]
    assert list(shards(source)) == [f"{file:05d}-{shard:06d}" for file in range(2) for shard in range(2)]


def test_bad_lines_say_why(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "a"}\r\n\n{"text": \n[1]\n"\xff"\n  \n{"text": "b"}')
    source = inputs.open_input(f"jsonl:{path}")
    reasons = [(line, found) for _, line, found in examples(source)]
    assert reasons[0] == (1, {"text": "a"})
    assert reasons[-1] == (7, {"text": "b"})
    expected = ["empty line", "not JSON", "not a JSON object: [1]", "not UTF-8 (byte 2", "empty line"]
    for (line, reason), beginning, number in zip(reasons[1:-1], expected, range(2, 7), strict=True):
        assert line == number
        assert reason.startswith(beginning)


@pytest.mark.parametrize("name", ["long.txt", "long.txt.gz"])
def test_a_long_line_is_bad_and_the_next_one_is_right(tmp_path, name, monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    texts = ["x" * 99, "y" * 100, "z" * 1000, "after", "last" * 50]
    data = "\n".join(texts).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    source = inputs.open_input(f"lines:{tmp_path}/{name}", shard_size=2)
    too_long = "longer than 100 bytes"
    # With its end a line of 100 letters has 101 bytes.
    assert [found for _, _, found in examples(source)] == [
        {"text": texts[0]}, too_long, too_long, {"text": "after"}, too_long,
    ]  # fmt: skip


def test_a_shard_of_large_examples_ends_earlier(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "SHARD_BYTES", 300)
    text = ("a" * 120 + "\n") * 10
    for name in ("plain.txt", "packed.txt.gz"):
        data = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        sizes = [len(found) for found in shards(inputs.open_input(f"lines:{tmp_path}/{name}")).values()]
        assert sizes == [3, 3, 3, 1]


def test_documents_and_lines_of_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n\nGrüße\n")
    assert examples(inputs.open_input(f"text:{path}")) == [
        (str(path), 1, {"text": "one\ntwo"}),
        (str(path), 4, {"text": "Grüße"}),
    ]
    assert [found for *_, found in examples(inputs.open_input(f"lines:{path}"))] == [
        {"text": "one"}, {"text": "two"}, "empty line", {"text": "Grüße"},
    ]  # fmt: skip


def test_a_long_line_of_a_text_is_bad_and_what_is_around_it_is_right(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    (tmp_path / "a.txt").write_text("one\n" + "x" * 200 + "\ntwo\nthree\n\nfour\n")
    assert [row[1:] for row in examples(inputs.open_input(f"text:{tmp_path}/a.txt"))] == [
        (1, {"text": "one"}),
        (2, "longer than 100 bytes"),
        (3, {"text": "two\nthree"}),
        (6, {"text": "four"}),
    ]


def test_a_remote_file_is_read_as_a_local_one(tmp_path):
    """`file://` goes the way of all that TensorFlow's file systems know."""
    for name in ("rows.jsonl", "rows.jsonl.gz"):
        path = corpus.write_jsonl(tmp_path / name, ROWS)
        remote = inputs.open_input(f"jsonl:file://{path}", shard_size=10)
        assert [row[1:] for row in examples(remote)] == list(enumerate(ROWS, 1))


def test_a_truncated_file_is_an_error_with_its_place(tmp_path):
    path = tmp_path / "cut.jsonl.gz"
    corpus.write_jsonl(path, corpus.reviews(2000))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=r"cut.jsonl.gz, line \d+: cannot be read: Compressed file ended"):
        examples(inputs.open_input(f"jsonl:{path}"))


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_rows_of_a_table(tmp_path, name):
    """A row of several lines has the number of its first; one with a cell too many is bad, not the rest."""
    table = b'text,label\n"one\ntwo",1\nthree,0\na,b,c\nfour,1\n'
    path = tmp_path / name
    path.write_bytes(gzip.compress(table) if name.endswith(".gz") else table)
    source = inputs.open_input(f"csv:{path}", shard_size=2)
    assert [len(records) for records in shards(source).values()] == [2, 2]
    found = examples(source)
    assert found[:2] == [
        (str(path), 2, {"text": "one\ntwo", "label": "1"}), (str(path), 4, {"text": "three", "label": "0"}),
    ]  # fmt: skip
    assert found[2][:2] == (str(path), 5)
    assert found[2][2].startswith("the row has 3 cells but the header has 2")
    assert found[3] == (str(path), 6, {"text": "four", "label": "1"})


def test_a_row_that_is_not_utf_8_is_bad_and_the_next_one_is_right(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"text,label\nfin\xe9,1\nafter,0\n\xff,\xff,\xff\nlast,1\n")
    found = [found for *_, found in examples(inputs.open_input(f"csv:{tmp_path}/a.csv", fields=("text",)))]
    assert found[0] == "'text' is not UTF-8"
    assert found[1] == {"text": "after", "label": "0"}
    assert found[2].startswith("the row has 3 cells")
    assert found[3] == {"text": "last", "label": "1"}
    (tmp_path / "a.csv").write_bytes(b"text,l\xe4nge\nfine,1\n")
    with pytest.raises(SourceError, match=r"a.csv, line 1: not UTF-8 \(byte 7 of the line\)"):
        inputs.open_input(f"csv:{tmp_path}/a.csv")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_column_that_a_table_lacks_is_said_at_once(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        path.write_text("text,label\none,1\n")
    else:
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table({"text": ["one"], "label": ["1"]}), path)
    assert len(examples(inputs.open_input(f"{kind}:{path}", fields=("label", "text")))) == 1
    with pytest.raises(SourceError, match=r"no field 'body' \(available: 'text', 'label'\)"):
        inputs.open_input(f"{kind}:{path}", fields=("text", "body"))


def test_a_table_with_two_columns_of_one_name_is_refused_at_once(tmp_path):
    """All of them would stand in the answers."""
    (tmp_path / "a.csv").write_text("text,x,x\none,1,2\n")
    with pytest.raises(SourceError, match="column 'x' appears twice"):
        inputs.open_input(f"csv:{tmp_path}/a.csv", fields=("text",))


@pytest.mark.parametrize(
    ("source", "available"),
    [("lines:{}/a.txt", "'text'"), ("text:{}/a.txt", "'text'"), ("pydocs", "'text', 'label'")],
)
def test_a_field_that_no_example_has_is_said_at_once(tmp_path, monkeypatch, source, available):
    (tmp_path / "a.txt").write_text("one\n")
    documents = corpus.write_jsonl(tmp_path / "a.jsonl.gz", [{"text": "one", "label": "json"}])
    monkeypatch.setattr(pydocs, "path", lambda selection: str(documents))  # collecting them takes long
    assert examples(inputs.open_input(source.format(tmp_path), fields=("text",)))
    with pytest.raises(SourceError, match=rf"no field 'body' \(available: {available}\)"):
        inputs.open_input(source.format(tmp_path), fields=("text", "body"))


def test_a_quote_that_is_never_closed_ends_with_its_place(tmp_path):
    (tmp_path / "a.csv").write_text('text\none\n"two\n')
    with pytest.raises(SourceError, match=r"a.csv, line 3: a quote is opened"):
        examples(inputs.open_input(f"csv:{tmp_path}/a.csv"))


def test_a_row_that_is_too_long_is_bad_and_the_next_one_is_right(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    (tmp_path / "a.csv").write_text("text\n" + "x" * 200 + "\nafter\n")
    found = [reason for *_, reason in examples(inputs.open_input(f"csv:{tmp_path}/a.csv"))]
    assert found == ["longer than 100 bytes", {"text": "after"}]


def test_a_long_row_of_parquet_makes_no_other_bad(tmp_path, monkeypatch):
    """A table of Parquet knows only how long its rows are on average."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    for texts in (["x" * 101, *["short"] * 20], ["x" * 1000, "short"]):
        parquet.write_table(pyarrow.table({"text": texts}), tmp_path / "a.parquet")
        found = [reason for *_, reason in examples(inputs.open_input(f"parquet:{tmp_path}/a.parquet"))]
        assert found == ["longer than 100 bytes", *[{"text": text} for text in texts[1:]]]


def test_rows_of_parquet_are_what_json_has(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        {"text": text, "day": datetime.date(2024, 1, 2), "tags": ["x", "y"], "share": share}
        for text, share in zip("ab", (0.5, math.nan), strict=True)
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert [found for *_, found in examples(inputs.open_input(f"parquet:{tmp_path}/a.parquet"))] == [
        {"text": text, "day": "2024-01-02", "tags": ["x", "y"], "share": share}
        for text, share in zip("ab", (0.5, "nan"), strict=True)
    ]


def test_tfds(tmp_path):
    reviews = corpus.write_jsonl(tmp_path / "reviews.jsonl", ROWS)
    prepare_tfds.prepare(
        f"jsonl:{reviews}", "reviews:1.0.0", str(tmp_path), {"test": "train"}, label_field="label"
    )
    source = inputs.open_input("tfds:reviews", "test[5:]", shard_size=8, data_dir=str(tmp_path))
    assert [len(records) for records in shards(source).values()] == [8, 8, 4]
    assert examples(source) == [
        ("tfds:reviews[test]", i, row) for i, row in enumerate(ROWS[5:], 6)
    ]  # numbered in the whole split
    assert source.description() == [["reviews/1.0.0", "test", 5, 25]]
    with pytest.raises(SourceError, match="has no split 'dev'"):
        inputs.open_input("tfds:reviews", "dev", data_dir=str(tmp_path))
    with pytest.raises(SourceError, match=r"no field 'body' \(available: 'label', 'text'\)"):
        inputs.open_input("tfds:reviews", "test", data_dir=str(tmp_path), fields=("body",))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'\n{"title": "a"}\n{"title": "b"}\n', r"a.jsonl, line 2: no field 'text' \(available: 'title'\)"),
        (b"[\n{}\n]\n", r"a.jsonl, line 1: not JSON .*; for an array of objects, write one object per line"),
        (
            gzip.compress(b'{"text": "a"}\n', mtime=0),
            "a.jsonl: the file is packed by gzip; its name must end in .gz",
        ),
        (
            '{"text": "a"}\n'.encode("utf-16"),
            "a.jsonl: the file is UTF-16; save it as UTF-8: iconv -f UTF-16",
        ),
        ('{"text": "a"}\n'.encode("utf-16-le"), "the file is UTF-16"),
        (b"<!DOCTYPE html>\n", "the file is a web page"),
        (b"x" * 2000, r"a.jsonl, line 1: longer than 1000 bytes"),
    ],
)
def test_a_file_of_which_nothing_can_be_used_is_said_at_once(tmp_path, monkeypatch, data, message):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1000)
    corpus.write_jsonl(tmp_path / "0.jsonl", ROWS)
    (tmp_path / "a.jsonl").write_bytes(data)
    with pytest.raises(SourceError, match=message):
        inputs.open_input(f"jsonl:{tmp_path}/*.jsonl", fields=("text",))
    if "the file is" in message and "page" not in message:
        for kind in ("lines", "text"):
            with pytest.raises(SourceError, match=message):
                inputs.open_input(f"{kind}:{tmp_path}/*.jsonl")


def test_bad_lines_before_the_first_good_one_are_bad_lines(tmp_path):
    """Also where they are the first: those of a file that is otherwise right do not end a run."""
    (tmp_path / "a.jsonl").write_bytes(b'\n{"text": \n{"id": 2}\n\xff\n{"text": "a"}\n')
    source = inputs.open_input(f"jsonl:{tmp_path}/a.jsonl", fields=("text",))
    assert examples(source)[-1][1:] == (5, {"text": "a"})
    with pytest.raises(SourceError, match=r"a.jsonl, line 2: not JSON"):
        inputs.open_input(f"jsonl:{tmp_path}/a.jsonl", fields=("body",))
    (tmp_path / "a.jsonl").write_bytes(b"\n\n")
    assert len(examples(inputs.open_input(f"jsonl:{tmp_path}/a.jsonl", fields=("text",)))) == 2


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("xml:a", "`input` must be 'jsonl:GLOB'"),
        ("jsonl:", "`input` must be 'jsonl:GLOB'"),
        ("jsonl:none/*.jsonl", "no such file"),
    ],
)
def test_wrong_inputs(source, message):
    with pytest.raises(SourceError, match=message):
        inputs.open_input(source)
    with pytest.raises(SourceError, match="`split` must be 'train', except for tfds"):
        inputs.open_input("jsonl:a", "test")
