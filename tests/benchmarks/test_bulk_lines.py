"""What is wrong with an output shows in the counts."""

import json
import pathlib

import pytest

from benchmarks import bulk_lines
from convnlp.bulk import inputs
from convnlp.data.schema import Schema
from tests.bulk.conftest import save_capitals

COUNT = 1000
GOOD = dict.fromkeys(("missing", "repeated", "misplaced", "wrong", "partial"), 0)


@pytest.fixture(scope="module")
def lines():
    return bulk_lines.Lines(COUNT)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_capitals(tmp_path_factory.mktemp("models") / "1")


@pytest.fixture
def output(lines, tmp_path):
    """What a prediction by that model has to write."""
    rows = {"predictions": [], "bad": []}
    for name, first, count in lines.files():
        for place in range(count):
            number = first + place
            row = {"file": f"some/{name}", "line": place + 1}
            if lines.bad(number):
                rows["bad"].append(row | {"reason": "bad"})
                continue
            text = lines.text(number)
            label, length = text.encode().upper().decode(), float(len(text.encode()))
            row |= {"input": {"id": number, "text": text}, "label": label, "scores": [length, -length]}
            rows["predictions"].append(row)
    for kind, found in rows.items():
        write(tmp_path / f"{kind}-00000-000000.jsonl", found)
    return tmp_path


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def change(output, kind, function):
    path = output / f"{kind}-00000-000000.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    function(rows)
    write(path, rows)


def test_of_a_right_one_all_lines_are_there_once(lines, output, model):
    assert bulk_lines.check(lines, output, model) == {"once": COUNT, **GOOD}


@pytest.mark.parametrize(
    ("kind", "spoil", "expected"),
    [
        ("predictions", lambda rows: rows.pop(3), {"once": COUNT - 1, "missing": 1}),
        ("bad", lambda rows: rows.pop(), {"once": COUNT - 1, "missing": 1}),
        ("predictions", lambda rows: rows.append(rows[0]), {"once": COUNT - 1, "repeated": 1}),
        ("bad", lambda rows: rows.append(rows[0]), {"once": COUNT - 1, "repeated": 1}),
        ("predictions", lambda rows: rows[5].update(label="OTHER"), {"once": COUNT, "wrong": 1}),
        ("predictions", lambda rows: rows[5].update(scores=[1.0, -1.0]), {"once": COUNT, "wrong": 1}),
        (
            "predictions",
            lambda rows: rows[5]["input"].update(text="other"),
            {"once": COUNT - 1, "missing": 1, "misplaced": 1},
        ),
        (
            "predictions",
            lambda rows: rows[5].update(line=COUNT),
            {"once": COUNT - 1, "missing": 1, "misplaced": 1},
        ),
        ("bad", lambda rows: rows.append(rows[0] | {"line": 5}), {"once": COUNT, "misplaced": 1}),
    ],
)
def test_what_is_wrong_is_counted(lines, output, model, kind, spoil, expected):
    change(output, kind, spoil)
    assert bulk_lines.check(lines, output, model) == GOOD | expected


def test_a_file_that_is_not_whole_is_counted(lines, output, model):
    (output / "predictions-00000-000000.jsonl.partial-1").touch()
    assert bulk_lines.check(lines, output, model) == {"once": COUNT, **GOOD, "partial": 1}


def test_the_files_have_all_lines_in_their_order_and_every_kind_of_bad_one(lines, tmp_path):
    lines.write(tmp_path)
    source = inputs.open_input(f"jsonl:{tmp_path}/*.jsonl*", shard_size=COUNT)
    records = [
        record
        for file in range(len(source.paths))
        for part in source.parts(file)
        for _, shard in source.shards(part)
        for record in shard
    ]
    assert [pathlib.Path(path).name for path in source.paths] == [name for name, _, _ in lines.files()]
    assert len(records) == COUNT
    schema, kinds = Schema(("text",)), set()
    for number, record in enumerate(records):
        if bad := lines.bad(number):
            kinds.add(bad)
            with pytest.raises(ValueError):
                schema.values(source.fields(record))
        else:
            assert source.fields(record) == {"id": number, "text": lines.text(number)}
    assert kinds == set(bulk_lines.BAD)
