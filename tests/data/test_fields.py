"""Which columns are taken for the text and the label, and when the program asks instead."""

import pytest

from convnlp.data import Source, SourceError, fields
from tests import corpus
from tests.data.test_formats import write, write_table

OPEN = {"text_field": "text", "label_field": "label"}
TEXTS = corpus.documents(40)


def source(folder, columns):
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return Source(f"csv:{write_table(folder / 'a.csv', rows)}")


NUMBERS = [str(i) for i in range(40)]
CLASSES = [("ham", "spam")[i % 2] for i in range(40)]
BITS = [str(i % 2) for i in range(40)]


@pytest.mark.parametrize(
    ("columns", "given", "taken"),
    [
        ({"text": TEXTS, "label": CLASSES}, {}, {}),
        ({"text": TEXTS, "label": CLASSES, "sentence": TEXTS, "class": CLASSES}, {}, {}),
        (
            {"Review": TEXTS, "Sentiment": CLASSES, "user": NUMBERS},
            {},
            {"text_field": "Review", "label_field": "Sentiment"},
        ),
        ({"text": TEXTS, "category": CLASSES, "year": NUMBERS}, {}, {"label_field": "category"}),
        ({"v1": CLASSES, "v2": TEXTS}, {}, {"text_field": "v2", "label_field": "v1"}),
        ({"": NUMBERS, "v1": CLASSES, "v2": TEXTS}, {}, {"text_field": "v2", "label_field": "v1"}),
        (
            {"v1": CLASSES, "v2": TEXTS, "__index_level_0__": NUMBERS},  # Parquet of a filtered table
            {},
            {"text_field": "v2", "label_field": "v1"},
        ),
        ({"v1": CLASSES, "v2": TEXTS}, {"label_field": "v1"}, {"text_field": "v2"}),
        ({"sentence": TEXTS, "v1": CLASSES}, {}, {"text_field": "sentence", "label_field": "v1"}),
        (
            {"question": TEXTS, "sentence": TEXTS, "label": CLASSES},
            {"second_text_field": "sentence"},
            {"text_field": "question"},
        ),
        # A column may be called like one of its values: a known name beside it, or those of pandas, say so.
        ({"text": TEXTS, "spam": CLASSES}, {}, {"label_field": "spam"}),
        ({"": NUMBERS, "0": TEXTS, "1": BITS}, {}, {"text_field": "0", "label_field": "1"}),
        # What somebody has named is never replaced: that it is missing is said where it is read.
        ({"review": TEXTS, "label": CLASSES}, {"text_field": "body"}, {}),
    ],
)
def test_what_is_taken(tmp_path, columns, given, taken, caplog):
    assert fields.take(source(tmp_path, columns), {**OPEN, **given}) == taken
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == bool(taken)
    for role, field in taken.items():
        assert f"{field!r} as {role}" in lines[0]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"title": TEXTS, "body": TEXTS, "label": CLASSES},
            r"no field 'text' \(available: 'title', 'body', 'label'\); candidates are 'title', 'body'; set",
        ),
        (
            {"a": TEXTS, "b": CLASSES, "c": CLASSES},
            r"no field 'text' .*; set text_field to the one to read$",
        ),
        ({"a": TEXTS, "b": TEXTS}, "no field 'text'"),
        (
            {"A fine day.": TEXTS, "ham": CLASSES},
            "no field 'text' .*; if the first line of the file is not its header, put one above it; set text",
        ),
        ({"a": CLASSES, "b": NUMBERS}, "no field 'text'"),
        ({"text": TEXTS, "number": NUMBERS}, "no field 'label'"),
        ({"text": TEXTS}, r"no field 'label' \(available: 'text'\); no other field is left for label_field$"),
        (
            {"text": TEXTS, "class": CLASSES, "topic": CLASSES},
            "no field 'label' .*; candidates are 'class', 'topic';",
        ),
    ],
)
def test_what_is_not_clear_is_an_error(tmp_path, columns, message):
    with pytest.raises(SourceError, match=message) as caught:
        fields.take(source(tmp_path, columns), OPEN)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("csv", r"a\.csv, line 1"),
        ("parquet", r"a\.parquet"),
        ("hf", r"\.arrow"),
        ("jsonl", r"a\.jsonl, line 31"),  # each line has fields of its own
    ],
)
def test_the_place_of_what_a_header_lacks_is_that_of_the_header_in_a_slice_too(tmp_path, kind, place):
    rows = [{"a": text, "b": label, "c": label} for text, label in zip(TEXTS, CLASSES, strict=True)]
    with pytest.raises(SourceError, match=f"{place}: no field 'text'"):
        fields.take(Source(write(kind, tmp_path / kind, rows), "train[30:]"), OPEN)


def test_a_file_that_is_sorted_by_class(tmp_path):
    columns = {"v1": sorted(CLASSES), "v2": TEXTS}
    assert fields.take(source(tmp_path, columns), OPEN) == {"text_field": "v2", "label_field": "v1"}


@pytest.mark.parametrize("columns", [{"remarks": TEXTS}, {"": NUMBERS, "remarks": TEXTS}])
def test_the_only_column_is_the_text(tmp_path, columns):
    assert fields.take(source(tmp_path, columns), {"text_field": "text"}) == {"text_field": "remarks"}


def test_what_a_column_may_be_is_said(tmp_path):
    columns = {
        "remarks": TEXTS,
        "mood": ["good", "bad"] * (len(TEXTS) // 2),
        "queue": ["", *["first", "second", "third"] * len(TEXTS)][: len(TEXTS)],  # one is not labelled
        "answer": [*[""] * 5, *["yes", "no"] * len(TEXTS)][: len(TEXTS)],
        "number": list(range(len(TEXTS))),
    }
    with pytest.raises(
        SourceError, match=r"no field 'label' .*; fields with few different values are 'mood', 'queue'; set"
    ):
        fields.take(source(tmp_path, columns), {"text_field": "remarks", "label_field": "label"})
    (tmp_path / "b.csv").write_text("A fine day in the valley,good,1\nA lost day by the river,bad,2\n")
    with pytest.raises(
        SourceError, match=r"no field 'text' .*; if the first line of the file is not its header, put one"
    ):
        fields.take(Source(f"csv:{tmp_path}/b.csv"), {"text_field": "text", "label_field": "label"})


@pytest.mark.parametrize(
    ("name", "lines", "reason"),
    [
        ("a.tsv", ["remarks;label", "A day;1"], "the columns seem to be separated by ';': read it as csv:"),
        ("a.tsv", ["text,label", "A day,1"], "the columns seem to be separated by ',': read it as csv:"),
        (
            "a.csv",
            ["text, raw;label", "A day, fine;1"],
            "set label_field .*; if the columns are separated by ';', write sep=; above the header",
        ),
        (
            "a.csv",
            ["Remarks of June,,", "A day,1,"],
            "set label_field .*; if line 1 is not the header, remove the lines above the header",
        ),
        ("a.txt", ["text,label"], "text: holds texts alone; write texts and labels as csv: or jsonl:"),
    ],
)
def test_columns_that_are_read_wrongly_are_not_guessed(tmp_path, name, lines, reason):
    (tmp_path / name).write_text("\n".join([*lines, lines[-1]]))
    kind = {"txt": "text"}.get(name[2:], name[2:])
    with pytest.raises(
        SourceError, match=rf"{name}, line 1: no field .* \(available: [^)]*\)[^)]*; {reason}$"
    ):
        fields.take(Source(f"{kind}:{tmp_path}/{name}"), OPEN)


@pytest.mark.parametrize(
    ("columns", "names", "field"),
    [
        ({"review": TEXTS, "text": TEXTS}, ("review",), "review"),
        ({"review": TEXTS, "text": TEXTS}, ("", "question", "review"), "review"),
        ({"review": TEXTS, "text": TEXTS}, ("question",), "text"),
        ({"review": TEXTS, "number": NUMBERS}, ("question",), "review"),
        ({"remarks": TEXTS}, (), "remarks"),
    ],
)
def test_the_text_of_documents(tmp_path, columns, names, field):
    assert fields.text(source(tmp_path, columns), *names) == field


def test_the_text_of_documents_is_not_guessed(tmp_path):
    with pytest.raises(
        SourceError, match=r"no field 'text' .*; candidates are 'title', 'body'; set text_field"
    ):
        fields.text(source(tmp_path, {"title": TEXTS, "body": TEXTS}), "review")
