"""`convnlp.prediction.rows` and `words`: what is written of an answer."""

import csv
import datetime
import json
import math
import resource

import numpy as np
import pytest

from convnlp import outputs
from convnlp.data import Source, sources
from convnlp.prediction import rows, words


def test_as_json():
    answer = {"label": "gut ü".encode(), "scores": np.array([0.1, 0.9], "float32"), "raw": b"\xff"}
    answer["tokens"] = np.array([b"a", b""], object)
    found = rows.as_json(answer)
    assert found == {"label": "gut ü", "scores": [0.1, 0.9], "raw": {"b64": "/w=="}, "tokens": ["a", ""]}


def test_an_answer_never_hides_what_stood_in_the_record():
    assert rows.joined({"label": "x"}, {"label": "y"}) == {"label": "x", "predicted_label": "y"}
    with pytest.raises(ValueError, match="must not have the field 'predicted_label'"):
        rows.joined({"label": "x", "predicted_label": "z"}, {"label": "y"})


def write(path, format, found):
    line = rows.lines(format)
    with outputs.writing(path) as file:
        for row in found:
            file.write(line(row))


def test_csv_reads_back(tmp_path):
    found = [
        {"text": 'a "quoted", text\nof two lines', "label": None, "labels": ["a", "b"], "scores": {"x": 0.5}},
        {"text": "", "label": "c", "labels": [], "scores": {"x": 0.25}},
    ]
    write(tmp_path / "new" / "out.csv", "csv", found)
    with open(tmp_path / "new" / "out.csv", newline="", encoding="utf-8") as file:
        read = list(csv.DictReader(file))
    assert read == [
        {"text": found[0]["text"], "label": "", "labels": "a|b", "scores.x": "0.5"},
        {"text": "", "label": "c", "labels": "", "scores.x": "0.25"},
    ]


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_a_line_end_in_a_cell_ends_no_row(tmp_path, end):
    found = [{"text": f"one{end}two", "label": "x"}, {"text": "three", "label": "y"}]
    write(tmp_path / "out.csv", "csv", found)
    with open(tmp_path / "out.csv", newline="", encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == found


def test_tabs_between_cells(tmp_path):
    found = [{"text": "a\tb, c", "label": 'x "y"'}, {"text": "two\nlines", "label": None}]
    write(tmp_path / "out.tsv", "tsv", found)
    assert (tmp_path / "out.tsv").read_text().splitlines()[0] == "text\tlabel"
    read = sources.records(Source(f"tsv:{tmp_path}/out.tsv"))
    assert [dict(record) for record, _ in read] == [found[0], {**found[1], "label": ""}]


def test_half_of_a_surrogate_pair_can_be_told_in_a_cell(tmp_path):
    write(tmp_path / "out.csv", "csv", [{"text": "a\ud83d"}])
    assert (tmp_path / "out.csv").read_text() == "text\na\\ud83d\n"


def test_columns_keep_the_order_of_the_first_record(tmp_path):
    write(tmp_path / "out.csv", "csv", [{"a": 1, "b": 2}, {"b": 3, "a": 4}])
    assert (tmp_path / "out.csv").read_text() == "a,b\n1,2\n4,3\n"


def test_a_class_never_hides_a_column_of_the_record(tmp_path):
    with pytest.raises(ValueError, match=r"must be jsonl if two columns would be 'scores\.x'"):
        write(tmp_path / "out.csv", "csv", [{"scores.x": "mine", "scores": {"x": 0.5}}])


def test_json_lines_read_back(tmp_path):
    found = [{"text": "ü\n\ud83d", "label": None}, {"other": [1]}]
    write(tmp_path / "out.jsonl", "jsonl", found)
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == found


def test_what_json_does_not_have_becomes_text():
    assert json.loads(rows.json_line({"day": datetime.date(2021, 6, 1)})) == {"day": "2021-06-01"}
    row = {"share": math.nan, "all": [{"a": -math.inf}, 0.5], "half": "\ud83d"}
    line = rows.json_line(row)
    assert json.loads(line, parse_constant=pytest.fail) == {
        **row,
        "share": "nan",
        "all": [{"a": "-inf"}, 0.5],
    }


def test_an_object_in_a_cell_is_json(tmp_path):
    write(tmp_path / "out.csv", "csv", [{"meta": {"by": {"name": "ü"}}, "all": [{"a": math.nan}, 2]}])
    with open(tmp_path / "out.csv", newline="", encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == [{"meta.by": '{"name": "ü"}', "all": '{"a": "nan"}|2'}]


def test_a_file_is_there_whole_or_as_before(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("of before")
    with pytest.raises(ValueError, match=r"must be jsonl for records of different fields.*a, b after a"):
        write(path, "csv", [{"a": 1}, {"a": 1, "b": 2}])
    with pytest.raises(ValueError, match=r"must be jsonl for records of different fields.*b after a"):
        write(path, "csv", [{"a": 1}, {"b": 2}])
    assert path.read_text() == "of before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_finds_no_room_is_named(tmp_path):
    path, limits = tmp_path / "out.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*/out\.jsonl'$"):
            write(path, "jsonl", [{"text": "a" * 2000}])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


def test_words_weigh_what_their_pieces_do():
    tokens, importances = [" un", "kind", ",", " day", "", ""], [0.5, 0.25, 0.125, -1, 0, 0]
    assert words.of_pieces(tokens, importances) == [["unkind,", 0.875], ["day", -1.0]]
    assert words.of_pieces(["und", " er"], [1, 2]) == [["und", 1.0], ["er", 2.0]]  # none begins the text
    assert words.of_pieces([], []) == []
