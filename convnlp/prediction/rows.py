"""Writes rows of answers as JSON lines, CSV or TSV.

In CSV and TSV, the entries of a list are joined by "|", a dict has a column per entry, named NAME.KEY, with
JSON for a dict in it, and None is an empty cell.
"""

import base64
import csv
import io
import json
import math

import numpy as np

DELIMITERS = {"csv": ",", "tsv": "\t"}
FORMATS = ("jsonl", *DELIMITERS)
BETWEEN = "|"  # a list's entries in a cell


def json_value(value):
    """Turns a NumPy value or bytes into JSON's form; bytes that are not text become {"b64": ...}."""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    value = np.asarray(value)
    if value.dtype == object:
        return [json_value(item) for item in value]
    # The shortest decimals that read back as the same numbers: 0.1, not 0.10000000149011612.
    return (value.astype(str).astype(float) if value.dtype.kind == "f" else value).tolist()


def as_json(answer):
    """Turns a dict of NumPy values or bytes into JSON's form."""
    return {name: json_value(value) for name, value in answer.items()}


def json_line(row):
    """Returns a dict as a line of UTF-8; what JSON does not know, such as a date or NaN, becomes text."""
    try:
        line = _dumped(row, allow_nan=False)
    except ValueError:
        line = _dumped(row := _finite(row))
    try:
        return line.encode("utf-8") + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, which only the escaped form can express
        return _dumped(row, ensure_ascii=True).encode("utf-8") + b"\n"


def _dumped(value, **options):
    return json.dumps(value, **{"ensure_ascii": False, "default": str, **options})


def _finite(value):
    """Returns a value of JSON with text in place of NaN and infinities."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def joined(record, answer):
    """Returns a record with its answer; a column of the answer whose name is taken becomes predicted_NAME.

    Raises:
        ValueError: if that name is taken too.

    Example:
    >>> joined({"text": "A fine day.", "label": "bad"}, {"label": "good", "probability": 0.9})
    {'text': 'A fine day.', 'label': 'bad', 'predicted_label': 'good', 'probability': 0.9}
    """
    named = {f"predicted_{name}" if name in record else name: value for name, value in answer.items()}
    if taken := sorted(set(named) & set(record)):
        raise ValueError(f"a record must not have the field {taken[0]!r}, which is for the answer")
    return {**record, **named}


def lines(format):
    """Returns a function from a row, a dict, to its line in bytes; in a table, the header precedes the first.

    Args:
        format: one of `FORMATS`.
    """
    return json_line if format == "jsonl" else _table_lines(format)


def _table_lines(format):
    """Returns a function from a row to its line; the header precedes the first line."""
    columns = []

    def line(row):
        cells = {}
        for name, value in _flat(row):
            if name in cells:
                raise ValueError(
                    f"`format` must be jsonl if two columns would be {name!r}. Received: format={format}"
                )
            cells[name] = _cell(value)
        written = []
        if not columns:
            columns.extend(cells)
            written.append(columns)
        if set(cells) != set(columns):
            raise ValueError(
                f"`format` must be jsonl for records of different fields. Received: format={format}, fields "
                f"{', '.join(cells)} after {', '.join(columns)}"
            )
        written.append([cells[name] for name in columns])
        found = "".join(_table_line(row, DELIMITERS[format]) for row in written)
        return found.encode("utf-8", "backslashreplace")

    return line


def _table_line(cells, delimiter):
    file = io.StringIO()
    # This quotes a cell with either of the two ends of a line.
    csv.writer(file, delimiter=delimiter, lineterminator="\r\n").writerow(cells)
    return file.getvalue().removesuffix("\r\n") + "\n"


def _flat(row):
    for name, value in row.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{key}", each) for key, each in value.items())
        else:
            yield name, value


def _cell(value):
    if isinstance(value, list | tuple):
        return BETWEEN.join(str(_cell(each)) for each in value)
    if isinstance(value, dict):
        return _dumped(_finite(value))
    return "" if value is None else value
