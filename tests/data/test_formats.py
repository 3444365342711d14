"""Every format of files keeps the same promises, and says where a file cannot be read."""

import bz2
import csv
import gzip
import io
import itertools
import json
import lzma
import re
import sys

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import tensorflow as tf

from convnlp.data import (
    Label,
    Number,
    Shard,
    Source,
    SourceError,
    fields,
    files,
    source_error_message,
    sources,
)
from convnlp.data.formats import FORMATS, delimited
from tests import corpus

ROWS = [
    {"id": i, "text": f'{row["text"]} "{i}", he said;\nand\tmore é{chr(0x1F600)}', "label": row["label"]}
    for i, row in enumerate(corpus.reviews(120))
]


def pack(data, suffix):
    if suffix == ".gz":
        return gzip.compress(data)
    return pyarrow.compress(data, "zstd", asbytes=True) if suffix == ".zst" else data


def write_table(path, rows, delimiter=",", encoding="utf-8", suffix=""):
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    path.write_bytes(pack(text.getvalue().encode(encoding), suffix))
    return path


def write_hf(folder, rows, names=None, num_files=1, feature=None):
    """What `save_to_disk` of a `Dataset` writes, as far as it is read."""
    folder.mkdir(parents=True)
    table = pyarrow.Table.from_pylist(rows)
    feature = feature or ({"names": names, "_type": "ClassLabel"} if names else {"dtype": "int64"})
    table = table.replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": {"label": feature}}})}
    )
    files = [f"data-{i:05}-of-{num_files:05}.arrow" for i in range(num_files)]
    for i, name in enumerate(files):
        with (folder / name).open("wb") as file, pyarrow.ipc.new_stream(file, table.schema) as writer:
            part = table.slice(i * len(rows) // num_files, len(rows) // num_files)
            writer.write_table(part, max_chunksize=7)
    state = {"_data_files": [{"filename": name} for name in files], "_split": "train"}
    (folder / "state.json").write_text(json.dumps(state))
    return folder


def write(kind, folder, rows=ROWS):
    """A source of that format with these rows."""
    folder.mkdir(exist_ok=True)
    if kind == "jsonl":
        return f"jsonl:{corpus.write_jsonl(folder / 'a.jsonl', rows)}"
    if kind in ("csv", "tsv"):
        return f"{kind}:{write_table(folder / f'a.{kind}', rows, FORMATS[kind]._delimiter)}"
    if kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "a.parquet", row_group_size=16)
        return f"parquet:{folder}/a.parquet"
    return f"hf:{write_hf(folder / 'saved', rows)}"


RECORDS = [kind for kind in FORMATS if kind != "text"]


def values(name, split="train", label=None, **options):
    label = label or Label(num_classes=2)
    found = sources.read(Source(name, split), label=label, **options).as_numpy_iterator()
    return [(example["text"].decode(), example["label"].item()) for example in found]


EXPECTED = [(row["text"], row["label"]) for row in ROWS]


@pytest.mark.parametrize("kind", RECORDS)
def test_a_format_keeps_what_is_promised(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(files, "BLOCK_BYTES", 1000)
    name = write(kind, tmp_path / kind)
    assert values(name) == EXPECTED
    assert values(name, "train[25%:75%]") == EXPECTED[30:90]
    shards = [values(name, shard=Shard(3, i)) for i in range(3)]
    assert [*itertools.chain.from_iterable(zip(*shards, strict=True))] == EXPECTED
    assert sources.label_names(Source(name)) == ("0", "1")
    assert values(name, label=Number("id")) == [(row["text"], row["id"]) for row in ROWS]
    sources.check(Source(name), label=Label(num_classes=2))

    dataset = sources.read(Source(name))
    first = iter(dataset)
    for _ in range(50):
        next(first)
    path = tf.train.Checkpoint(iterator=first).write(str(tmp_path / "checkpoint"))
    again = iter(sources.read(Source(name)))
    tf.train.Checkpoint(iterator=again).read(path)
    assert [example["text"].numpy().decode() for example in again] == [text for text, _ in EXPECTED[50:]]


@pytest.mark.parametrize("kind", RECORDS)
def test_integers_are_looked_up_among_names_that_are_integers(tmp_path, kind):
    label = Label(names=("1", "0"))
    turned = [(text, 1 - number) for text, number in EXPECTED]
    assert values(write(kind, tmp_path / kind), label=label) == turned


def test_integers_stand_for_the_names_that_are_stored(tmp_path):
    """Whatever the order of the names that a model knows, and however many more it knows."""
    stored = f"hf:{write_hf(tmp_path / 'stored', ROWS, names=['good', 'bad'])}"
    turned = [(text, 1 - number) for text, number in EXPECTED]
    assert values(stored, label=Label(names=("good", "bad"))) == EXPECTED
    assert values(stored, label=Label(names=("bad", "good"), has_order=False)) == turned
    more = [(text, 2 * number) for text, number in turned]
    assert values(stored, label=Label(names=("bad", "fair", "good"))) == more
    assert values(stored, label=Label(names=("a", "b"), has_order=False)) == EXPECTED  # the user's own
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"label 'bad' is not one of the 2 classes"):
        values(stored, label=Label(names=("fair", "good")))
    with pytest.raises(SourceError, match=r"`label_names` must be names that the data store .*'b', 'c'\]"):
        values(stored, label=Label(names=("a", "b", "c")))
    numbers = f"hf:{write_hf(tmp_path / 'numbers', ROWS, names=['1', '0'])}"
    assert values(numbers, label=Label(names=("1", "0"))) == EXPECTED
    assert (
        values(numbers, label=Label(names=("1", "0"), threshold=0.5)) == EXPECTED
    )  # of the integers themselves


@pytest.mark.parametrize("kind", RECORDS)
def test_a_format_names_the_fields_that_there_are(tmp_path, kind):
    name = write(kind, tmp_path / kind)
    with pytest.raises(SourceError, match=r"no field 'body' \(available: 'id', 'text', 'label'\)$"):
        sources.read(Source(name), ("body",))


@pytest.mark.parametrize("kind", RECORDS)
def test_a_wrong_value_is_named_with_its_place(tmp_path, kind):
    rows = [dict(row, label=2 if row["id"] == 100 else row["label"]) for row in ROWS]
    place = {"jsonl": "line 101"}.get(kind, "row 101")
    if kind in ("csv", "tsv"):  # whose texts have two lines
        place = r"line 202 \(row 102 in a spreadsheet\)"
    with pytest.raises(
        SourceError, match=rf"{place}: `label` must be an integer in \[0, 2\). Received: '?2'?$"
    ):
        sources.check(Source(write(kind, tmp_path / kind, rows)), label=Label(num_classes=2))


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_packed_files_and_marks_of_encodings(tmp_path, kind, encoding, suffix):
    path = tmp_path / f"a.{kind}{suffix}"
    if kind == "csv":
        write_table(path, ROWS, encoding=encoding, suffix=suffix)
    else:
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)
        path.write_bytes(pack(text.encode(encoding), suffix))
    assert values(f"{kind}:{path}") == EXPECTED


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_a_csv_without_commas_is_read_by_what_it_has(tmp_path, delimiter, caplog):
    rows = [dict(row, text=row["text"] + " a, b") for row in ROWS]
    path = write_table(tmp_path / "a.csv", rows, delimiter)
    expected = [(f"{text} a, b", label) for text, label in EXPECTED]
    assert values(f"csv:{path}") == values(f"csv:{path}") == expected
    assert caplog.text.count(f"reading columns separated by {delimiter!r}") == 1  # said once


def test_blank_lines_before_the_header(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("\n \ntext;label\nA day;1\n\nA night;0\n")
    assert values(f"csv:{path}") == [("A day", 1), ("A night", 0)]
    with pytest.raises(SourceError, match=r"a\.csv, line 3: no field 'body'"):
        sources.check(Source(f"csv:{path}"), ("body",))
    path.write_text(path.read_text() + "A morning;many\n")
    with pytest.raises(SourceError, match=r"a\.csv, line 7: `label` must be an integer"):
        sources.check(Source(f"csv:{path}"), label=Label(num_classes=2))


@pytest.mark.parametrize(
    ("first", "rows"),
    [
        ("sep=;\n", [" (row 1 in a spreadsheet)", " (row 2 in a spreadsheet)"]),
        ("\ufeffsep=;\r\n", [" (row 1 in a spreadsheet)", " (row 2 in a spreadsheet)"]),
        ('"sep=;"\n', ["", ""]),  # which is a cell of the first row, too
    ],
)
@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_the_separator_that_a_first_line_names_for_excel(tmp_path, kind, first, rows):
    path = tmp_path / f"a.{kind}"
    path.write_bytes(f"{first}text;label;a, b\nA day, a night;1;x\n".encode())
    assert values(f"{kind}:{path}") == [("A day, a night", 1)]
    place = re.escape(f"line 2{rows[0]}: ")
    with pytest.raises(SourceError, match=rf"{place}no field 'body' \(available: 'text', 'label', 'a, b'\)"):
        sources.check(Source(f"{kind}:{path}"), ("body",))
    place = re.escape(f"line 3{rows[1]}: ")
    with pytest.raises(SourceError, match=rf"{place}`a, b` must be an integer in \[0, 2\)"):
        sources.check(Source(f"{kind}:{path}"), label=Label("a, b", num_classes=2))


@pytest.mark.parametrize("header", ["sep=a", "sep="])
def test_a_column_may_be_called_sep(tmp_path, header):
    (tmp_path / "a.csv").write_text(f"{header}\none\n")
    with pytest.raises(SourceError, match=rf"line 1: no field 'body' \(available: '{header}'\)"):
        sources.check(Source(f"csv:{tmp_path}/a.csv"), ("body",))


@pytest.mark.parametrize(
    ("cells", "warning"),
    [
        (["0.5", "1.5", "2"], "label has 3 different numbers, taken for classes; with task.kind=regression,"),
        (["0,5", "1,5", "2"], "label has 3 different numbers, taken for classes; with task.kind=regression,"),
        (["good", "bad", "Good"], "'Good' and 'good' of label are two classes"),
        (["good", "bad", "good\u200b"], r"'good' and 'good\u200b' of label are two classes"),
        (["good", "bad", "very good", "very  good"], "'very  good' and 'very good' of label are two classes"),
        (["caf\u00e9", "tea", "cafe\u0301"], r"'cafe\u0301' and 'caf\xe9' of label are two classes"),
        (["0", "1", "1.0"], "'1' and '1.0' of label are two classes"),
        (["007", "7", "8.5x"], "'007' and '7' of label are two classes"),
        (
            ["['a', 'b']", "['b']"],
            "label has several labels in \"['a', 'b']\", taken for one class; with task.kind",
        ),
        (
            ["a; b", "b", "c"],
            "label has several labels in 'a; b', taken for one class; with task.kind=multi_",
        ),
        (["a; b", "c"], ""),
        (["a-b", "b"], ""),
        (["1.0", "2.0"], ""),  # as pandas writes integers beside missing values
        (["good", "bad", "1.5"], ""),
        (["12345678901234567", "12345678901234568", "x"], ""),  # equal as floats
    ],
)
def test_labels_that_are_hardly_meant_as_classes(tmp_path, cells, warning, caplog):
    write_table(tmp_path / "a.csv", [{"text": "x", "label": cell} for cell in cells], delimiter=";")
    assert len(sources.label_names(Source(f"csv:{tmp_path}/a.csv"))) == len(cells)
    lines = [record.getMessage() for record in caplog.records if "separated by" not in record.getMessage()]
    assert len(lines) == bool(warning)
    assert warning in "".join(lines)


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_rows_between_two_stray_quotes_are_pointed_out(tmp_path, kind, caplog):
    rows = [f"A day,{i % 2}" for i in range(20)]
    rows[2], rows[9] = '"To be,0', 'or not",1'
    text = "\n".join(["text,label", *rows, ""])
    (tmp_path / f"a.{kind}").write_text(text if kind == "csv" else text.replace(",", "\t"))
    for _ in range(2):
        assert len(values(f"{kind}:{tmp_path}/a.{kind}")) == 13
    message = f"a.{kind}: line 4: a cell holds 6 lines that look like rows; is a quote left open?"
    assert caplog.text.count(message) == 1


@pytest.mark.parametrize("text", ["\n".join("abcdefgh"), "a, b\nc, d\ne, f\n\ng, h\ni, j", "text"])
def test_lines_of_a_cell_that_are_no_rows(tmp_path, text, caplog):
    path = write_table(tmp_path / "a.csv", [{"text": text, "label": 1}])
    assert values(f"csv:{path}") == [(text, 1)]
    assert not caplog.text


@pytest.mark.parametrize("header", ["text", '"a;b",text', '"text;"', "text,a;b;c;d"])
def test_a_header_with_commas_or_one_column_is_read_as_such(tmp_path, header, caplog):
    row = ",".join(["A fine day; a lost one"] * (1 + header.count(",")))
    (tmp_path / "a.csv").write_text(f"{header}\n{row}\n")
    field = "text;" if header == '"text;"' else "text"
    (example,) = sources.read(Source(f"csv:{tmp_path}/a.csv"), (field,))
    assert example[field].numpy().decode() == "A fine day; a lost one"
    assert "separated" not in caplog.text


def test_files_of_a_directory_are_mixed(tmp_path):
    write_hf(tmp_path / "saved", ROWS, num_files=2)
    found = values(f"hf:{tmp_path}/saved")
    assert sorted(found) == sorted(EXPECTED)
    assert {number for _, number in values(f"hf:{tmp_path}/saved", label=Number("id"))[:40]} > {0, 60}


def test_the_splits_and_classes_of_hugging_face(tmp_path):
    for split, rows in {"train": ROWS, "test": ROWS[:10]}.items():
        write_hf(tmp_path / "saved" / split, rows, names=["bad", "good"])
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    name = f"hf:{tmp_path}/saved"
    assert values(name, "test") == EXPECTED[:10]
    assert sources.label_names(Source(name)) == ("bad", "good")
    assert values(name, label=Label(names=("bad", "good"))) == EXPECTED
    with pytest.raises(SourceError, match=r"no split 'valid' \(available: train, test\)$"):
        sources.read(Source(name, "valid"))
    with pytest.raises(SourceError, match="has no split 'test': it is a single data set"):
        sources.read(Source(f"{name}/train", "test"))
    with pytest.raises(SourceError, match="must be a directory written by save_to_disk"):
        sources.read(Source(f"hf:{tmp_path}"))
    (tmp_path / "saved" / "test" / "state.json").write_text("[")
    with pytest.raises(SourceError, match=r"state\.json: cannot be read: "):
        sources.read(Source(name, "test"))


def test_only_the_files_that_a_directory_of_hugging_face_lists_are_its_data(tmp_path):
    saved = write_hf(tmp_path / "saved [1]", ROWS, num_files=2)
    source = Source(f"hf:{saved}")
    first, second = sorted(saved.glob("data-*.arrow"))
    # What `map` leaves after `load_from_disk`, and a larger data set that was saved there before.
    for name in ("cache-0123456789abcdef.arrow", "data-00002-of-00003.arrow"):
        (saved / name).write_bytes(first.read_bytes())
    assert sources.paths(source) == [str(first), str(second)]
    assert sorted(values(source.name)) == sorted(EXPECTED)
    second.unlink()
    with pytest.raises(SourceError, match=r"no such file: .*data-00001-of-00002\.arrow$"):
        sources.read(source)
    for state in ("{}", '{"_data_files": []}', '{"_data_files": [7]}'):
        (saved / "state.json").write_text(state)
        with pytest.raises(SourceError, match=r"state\.json: must name the files of the data set"):
            sources.read(source)


def read_all(source):
    sources.check(source, label=Label(names=sources.label_names(source)))


CSV = "text,label\nA fine day.,1\nA lost day.,0\n"
BAD_TABLES = {
    "semicolons": ("tsv", CSV.replace(",", ";"), "line 1: .* separated by ';': read it as csv:"),
    "ragged, of semicolons": ("csv", CSV.replace(",", ";") + "A;day;1\n", "line 4: the row has 3 cells"),
    "commas": ("tsv", CSV, "line 1: .* separated by ',': read it as csv:"),
    "no header": ("csv", "Fine.,1\nLost.,0\n", r"line 1: no field 'label' \(available: 'Fine\.', '1'\)"),
    "a quote that stays open": ("csv", CSV + '"A day,1\nA day,0\n', "line 4: a quote is opened in this row"),
    "text behind a quote": ("csv", CSV + '"A" day,1\n', "line 4: text follows a closing quote"),
    "ragged": ("csv", CSV + "A day, they say,1\n", "line 4: the row has 3 cells but the header has 2"),
    "short": (
        "csv",
        CSV + "A day\n",
        "line 4: the row has 1 cell but the header has 2; a cell that contains",
    ),
    "a separator at the end of each row": (
        "csv",
        "text,label\nA day,1,\nA night,0,\n",
        "line 2: the row has 3 cells but the header has 2; if it ends in a separator that the header lacks,",
    ),
    "a comma in a header of semicolons": (
        "csv",
        "text, raw;label\nA day;1\n",
        "line 1: no field 'label' .*; if the columns are separated by ';', write sep=; above the",
    ),
    "a title": (
        "csv",
        "# Remarks of the third quarter\n" + CSV,
        "line 1: no field 'label' .*; if line 1 is not the header, remove the lines above",
    ),
    "a page": ("csv", "\n<!DOCTYPE html>\n<p>Sign in, please</p>\n", "csv: the file is a web page; download"),
    "a page of JSON": ("jsonl", "<HTML><p>Sign in</p>\n", "jsonl: the file is a web page; download the data"),
    "a pointer": (
        "csv",
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
        "csv: the file is a pointer of Git LFS; fetch its content: git lfs pull$",
    ),
    "a column twice": ("csv", "text,label,text\na,1,b\nc,0,d\n", "line 1: column 'text' appears twice"),
    "a header alone": ("csv", "text,label\n", "line 1: the file has a header but no rows"),
    "nothing": ("csv", "", "the file is empty"),
    "blank": ("csv", "\n\n", "the file is empty"),
    "Latin-1 in UTF-8": (
        "csv",
        CSV.encode() + "Déjà,1\n".encode("latin-1"),
        r"line 4: not UTF-8 \(byte 2 of",
    ),
    "old line ends": ("csv", CSV.replace("\n", "\r"), r"line 1: lines must end in \\n"),
    "a workbook": ("csv", b"PK\x03\x04\x14\x00", "csv: the file is a zip archive, or a workbook"),
    "packed under another name": ("csv", gzip.compress(CSV.encode()), "packed by gzip; its name must end in"),
    "bzip2": ("csv", bz2.compress(CSV.encode()), "packed by bzip2; pack it by gzip or zstd, or unpack it"),
    "xz": ("csv", lzma.compress(CSV.encode()), "packed by xz; pack it by gzip or zstd, or unpack it"),
    "an old workbook": ("csv", b"\xd0\xcf\x11\xe0\xa1\xb1", "is a workbook of a spreadsheet; save its table"),
    "UTF-32": ("csv", CSV.encode("utf-32"), "the file is UTF-32; save it as UTF-8"),
    "Parquet": ("csv", b"PAR1\x15\x04\x15", "csv: the file is Parquet; read it as parquet:"),
    "half of UTF-16": ("csv", CSV.encode("utf-16")[:-1], "cannot be read: .*utf-16"),
    "joined": ("csv", CSV + CSV, "line 4: the row repeats the header in line 1; remove it, or put a header"),
    "joined with marks": (
        "csv",
        2 * ("\ufeff" + CSV),
        "line 4: the row repeats the header in line 1; remove",
    ),
    "no label": ("csv", CSV + "A day.,\n", "line 4: label is missing. Received: ''"),
    "NaN": ("csv", CSV + "A day.,NaN\n", "line 4: label is missing. Received: 'NaN'"),
    "several without a label": (
        "csv",
        CSV + 'A day.,\nA day.,1\n"A\nday.",NaN\n',
        "line 4: label is missing. Received: ''; 2 of 5 rows have no label: label or remove them$",
    ),
    "no label below a cell of several lines": (
        "csv",
        CSV + '"A\nfine\nday.",1\n\nA day.,\n',
        r"line 8 \(row 6 in a spreadsheet\): label is missing",
    ),
    "one class": ("csv", "text,label\na,1\nb,1\n", "`label` must have at least two classes. Received: "),
    "many classes": (
        "csv",
        "text,label\n" + "".join(f"a,title {i}\n" for i in range(1000)),
        "label has 1000 different strings in 1000 examples; if they are classes, list them in label_names$",
    ),
    "many numbers": (
        "csv",
        "text;label\n" + "".join(f"a;{i},5\n" for i in range(1000)),
        "list them in label_names; with task.kind=regression, finetune learns the numbers",
    ),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_a_bad_table_is_one_line(tmp_path, name):
    kind, content, message = BAD_TABLES[name]
    path = tmp_path / f"a.{kind}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SourceError) as caught:
        read_all(Source(f"{kind}:{path}"))
    line = str(caught.value)
    assert re.search(message, line)
    assert path.name in line
    assert "\n" not in line
    assert len(line) < 300 + len(str(path))


@pytest.mark.parametrize("end", [",\r\n,\r\n", ",\r\n\r\n,", '"",\r\n'])
def test_rows_of_empty_cells_at_the_end_are_not_rows(tmp_path, end, caplog):
    rows = "A day,1\r\n,0\r\n"  # an empty text is a text
    (tmp_path / "a.csv").write_bytes(f"text,label\r\n{rows}{end}".encode())
    name = f"csv:{tmp_path}/a.csv"
    assert values(name) == values(name) == [("A day", 1), ("", 0)]
    assert values(name, "train[50%:]") == [("", 0)]
    number = 1 if end.startswith('"') else 2
    assert caplog.messages == [f"{tmp_path}/a.csv: ignoring {number} empty row{'s'[: number - 1]} at the end"]


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (
            "Remarks of June\ntext,label\nA day,1\n",
            "; if line 1 is not the header, remove the lines above the header",
        ),
        ("text, raw;label\nA day;1\n", "; if the columns are separated by ';', write sep=; above the header"),
        ("text\nA day, a night\n", ""),
    ],
)
def test_a_row_that_the_header_does_not_fit(tmp_path, content, hint):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(SourceError) as caught:
        fields.take(Source(f"csv:{tmp_path}/a.csv"), {"text_field": "text"})
    reason, _, found = str(caught.value).partition(" must be quoted")
    assert re.search(r"line 2: the row has \d cells? but the header has \d; a cell that contains", reason)
    assert found == hint


def test_a_row_of_empty_cells_before_the_end_is_one(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\nA day,1\n,\n,\nA night,0\n,\n")
    with pytest.raises(SourceError, match="line 3: label is missing"):
        sources.check(Source(f"csv:{tmp_path}/a.csv"), label=Label(num_classes=2))
    assert len(list(sources.records(Source(f"csv:{tmp_path}/a.csv")))) == 4
    (tmp_path / "b.csv").write_text('text\n""\n""\n')  # of one column, it is an empty text
    assert len(list(sources.records(Source(f"csv:{tmp_path}/b.csv")))) == 2
    (tmp_path / "c.csv").write_text("text,label\n,\n,\n")
    with pytest.raises(SourceError, match="line 1: the file has a header but no rows"):
        sources.check(Source(f"csv:{tmp_path}/c.csv"))


def test_documents_may_be_pages(tmp_path):
    (tmp_path / "a.txt").write_text("<!DOCTYPE html>\n<p>A day</p>\n")
    (example,) = sources.read(Source(f"text:{tmp_path}/a.txt"))
    assert example["text"].numpy().startswith(b"<!DOCTYPE")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ('{"text": "A day"},', "; remove the comma behind the object"),
        ("{", "; write each object on a line of its own: jq -c . OLD.json > NEW.jsonl"),
        ("{'text': 'A day'}", "; JSON has double quotes, as json.dumps writes them"),
        ('{"text": A day}', ""),
    ],
)
def test_what_is_almost_a_line_of_json(tmp_path, line, hint):
    (tmp_path / "a.jsonl").write_text(f"{line}\n")
    with pytest.raises(
        SourceError, match=rf"a\.jsonl, line 1: not JSON \([^)]*\(char \d+\)\){re.escape(hint)}$"
    ):
        sources.check(Source(f"jsonl:{tmp_path}/a.jsonl"))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_column_that_stands_there_twice_and_is_not_asked_for(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        path.write_text("text,x,label,x\nA fine day.,5,1,6\nA lost day.,7,0,8\n")
    else:
        columns = ["A fine day.", "A lost day."], [5, 7], [1, 0], [6, 8]
        table = pyarrow.Table.from_arrays(list(map(pyarrow.array, columns)), ["text", "x", "label", "x"])
        pyarrow.parquet.write_table(table, path)
    source = Source(f"{kind}:{path}")
    assert fields.take(source, {"text_field": "text", "label_field": "label"}) == {}
    assert values(source.name, label=Label(num_classes=2)) == [("A fine day.", 1), ("A lost day.", 0)]
    for read in (lambda: sources.check(source, ("x",)), lambda: list(sources.records(source))):
        with pytest.raises(SourceError, match="column 'x' appears twice"):
            read()


@pytest.mark.parametrize("kind", ["csv", "parquet", "hf"])
@pytest.mark.parametrize(
    ("names", "twice"),
    [(("text", "label", "label", "stars"), "label"), (("text", "text", "label", "review"), "text")],
)
def test_a_column_that_stands_there_twice_is_not_replaced_by_another(tmp_path, kind, names, twice):
    rows = [["A fine day.", "1", "1", "5"], ["A lost day.", "0", "0", "1"]]
    if kind == "csv":
        (tmp_path / "a.csv").write_text("\n".join(map(",".join, [names, *rows])))
    table = pyarrow.Table.from_arrays([pyarrow.array(column) for column in zip(*rows, strict=True)], names)
    if kind == "parquet":
        pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    if kind == "hf":
        folder = write_hf(tmp_path / "saved", ROWS)
        with pyarrow.ipc.new_stream(folder / "data-00000-of-00001.arrow", table.schema) as writer:
            writer.write_table(table)
    source = Source(f"{kind}:{tmp_path}/saved" if kind == "hf" else f"{kind}:{tmp_path}/a.{kind}")
    found = {"text_field": "text", "label_field": "label"}
    found |= fields.take(source, found)
    with pytest.raises(SourceError, match=f"column '{twice}' appears twice$"):
        sources.check(source, (found["text_field"],), Label(found["label_field"], names=("0", "1")))


def test_a_line_of_50_MB(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(CSV.encode() + b"x" * 50_000_000 + b",1\n")
    with pytest.raises(SourceError, match=r"a\.csv, line 4: the line is longer than 16 MiB$"):
        sources.check(Source(f"csv:{path}"))


def test_a_quote_is_not_read_to_the_end_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "MAX_ROW_BYTES", 1000)
    path = tmp_path / "a.csv"
    path.write_text(CSV + '"A day,1\n' + "A day,0\n" * 1000)
    with pytest.raises(SourceError, match=r"line 4: the row is longer than .* is a quote left open"):
        sources.check(Source(f"csv:{path}"))


def test_a_long_cell(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"text,label\n{'x' * 200_000},1\n")
    assert values(f"csv:{path}") == [("x" * 200_000, 1)]


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (["b", "a", "b"], ("a", "b")),
        (["0", "1", "0"], ("0", "1")),
        (["10", "9", "11", "8", "7", "6", "5"], tuple(map(str, range(12)))),
        (["-1", "0", "1"], ("-1", "0", "1")),
        (["10", "20", "100000"], ("10", "100000", "20")),
        (["01", "02"], ("01", "02")),
        (["1.0", "2.0"], ("1.0", "2.0")),
        (["None", "NA"], ("NA", "None")),
        (["7" * 5000, "7"], ("7", "7" * 5000)),  # more digits than Python makes a number of
        ([f"{i % 1000}" for i in range(2000)], tuple(map(str, range(1000)))),
        ([f"c{i % 1000}" for i in range(2000)], tuple(sorted(f"c{i}" for i in range(1000)))),
    ],
)
def test_the_classes_of_a_table(tmp_path, cells, names):
    write_table(tmp_path / "a.csv", [{"text": "x", "label": cell} for cell in cells])
    source = Source(f"csv:{tmp_path}/a.csv")
    assert sources.label_names(source) == names
    found = [int(example["label"]) for example in sources.read(source, label=Label(names=names))]
    assert [names[label] for label in found] == cells


@pytest.mark.parametrize(
    ("cells", "names", "labels"),
    [
        (["good", "bad ", " good", "bad"], ("bad", "good"), [1, 0, 1, 0]),
        ([" 0", " 1", "1 "], ("0", "1"), [0, 1, 1]),
        ([" ja", "nein", "ja"], (" ja", "ja", "nein"), [0, 2, 1]),  # if the user gives such names
    ],
)
def test_spaces_around_a_class_do_not_count(tmp_path, cells, names, labels):
    write_table(tmp_path / "a.csv", [{"text": "x", "label": cell} for cell in cells])
    source = Source(f"csv:{tmp_path}/a.csv")
    assert sources.label_names(source) == tuple(sorted({name.strip() for name in names}))
    found = sources.read(source, label=Label(names=names))
    assert [int(example["label"]) for example in found] == labels
    counted = sources.read(source, label=Label(num_classes=2)) if "0" in names else ()
    assert [int(example["label"]) for example in counted] == labels * ("0" in names)


def test_names_for_the_integers_of_a_table(tmp_path):
    def labels(cells, *names):
        rows = [{"text": "x", "label": cell} for cell in cells]
        return [
            n for _, n in values(f"csv:{write_table(tmp_path / 'a.csv', rows)}", label=Label(names=names))
        ]

    assert labels(["0", " 1", "good"], "bad", "good") == [0, 1, 1]
    with pytest.raises(SourceError, match=r"line 2: `label` must be an integer in \[0, 2\)\. Received: 2$"):
        labels(["2"], "bad", "good")
    with pytest.raises(SourceError, match="line 2: label '0' is not one of the 2 classes"):
        labels(["0"], "1", "2")


def test_numbers_of_a_table(tmp_path):
    write_table(tmp_path / "a.csv", [{"text": "x", "label": cell} for cell in ("0.5", "-1e3", " 7")])
    name = f"csv:{tmp_path}/a.csv"
    assert [label for _, label in values(name, label=Number())] == [0.5, -1000, 7]
    assert [label for _, label in values(name, label=Label(threshold=0.5))] == [1, 0, 1]
    for cell in ("", "nan", "many", "inf"):
        write_table(tmp_path / "a.csv", [{"text": "x", "label": cell}])
        with pytest.raises(SourceError, match=f"line 2: `label` must be a finite number. Received: .*{cell}"):
            sources.check(Source(name), label=Number())


def test_missing_values_of_parquet(tmp_path):
    rows = [{"text": "a", "label": 1.0}, {"text": None, "label": float("nan")}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    source = Source(f"parquet:{tmp_path}/a.parquet")
    with pytest.raises(SourceError, match=r"a\.parquet, row 2: `text` must be a string\. Received: None$"):
        sources.check(source)
    with pytest.raises(
        SourceError, match=r"row 1: `label` must be a string or an integer >= 0; .* Received: 1\.0$"
    ):
        sources.label_names(source)


@pytest.mark.parametrize("kind", ["parquet", "hf"])
def test_a_damaged_file_is_named(tmp_path, kind):
    name = write(kind, tmp_path / kind)
    (path,) = sources.paths(Source(name))
    with open(path, "rb") as file:
        data = file.read()
    for content in (b"text", data[: len(data) // 2], data[:200] + bytes(200) + data[400:]):
        with open(path, "wb") as file:
            file.write(content)
        with pytest.raises((SourceError, tf.errors.OpError)) as caught:
            assert values(name) == EXPECTED
        line = source_error_message(caught.value)
        assert line.startswith(path)
        assert "\n" not in line


def test_pyarrow_need_not_be_installed(tmp_path, monkeypatch):
    (tmp_path / "a.csv.zst").write_bytes(pack(CSV.encode(), ".zst"))
    names = [write(kind, tmp_path / kind) for kind in ("parquet", "hf")] + [f"csv:{tmp_path}/a.csv.zst"]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name in names:
        with pytest.raises(SourceError, match=r"cannot be read without pyarrow: pip install pyarrow$"):
            sources.read(Source(name))


def test_columns_that_are_not_asked_for_are_not_read(tmp_path, monkeypatch):
    name = write("parquet", tmp_path)
    seen = []
    parse = type(FORMATS["parquet"]).parse
    monkeypatch.setattr(
        type(FORMATS["parquet"]), "parse", lambda self, data: seen.append(set(data)) or parse(self, data)
    )
    assert len(values(name)) == len(ROWS)
    assert np.all([fields == {"text", "label"} for fields in seen])
