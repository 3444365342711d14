"""Tables of text: CSV and TSV with a header, as spreadsheets and pandas write them."""

import collections
import csv
import itertools
import re

from absl import logging

from convnlp.data.formats.format import Format, Record
from convnlp.data.labels import Cell
from convnlp.data.records import named
from convnlp.data.rules import short

MAX_ROW_BYTES = 1 << 24  # of a row with several lines; stops reading if a quote is left open
_SWALLOWED = 3  # lines within a cell, if all of them look like rows, are hardly text
_OTHERS = ",;\t|"  # possible separators
_ESCAPED = re.compile("[\udc80-\udcff]")  # bytes that are not UTF-8
_said = set()  # (path, what) of the files for which something was logged
_SEPARATED = "if the columns are separated by {0!r}, write sep={0} above the header"
_NO_HEADER = "if line {} is not the header, remove the lines above the header"

# This limit applies to the whole process; the module's default, 128 KiB, is too small for long documents.
csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_BYTES))


class Delimited(Format):
    """Rows below a header, with cells quoted as in RFC 4180; quoted cells may contain line ends.

    In half of the world, spreadsheets write CSV with semicolons: if the header has no comma, the separator
    that it has instead is used. A first line such as "sep=;", which Excel reads so, names the separator.
    Rows of empty cells at the end, which spreadsheets leave where rows were cleared, are not read. A second
    header, which stays between the rows of files that were joined, is an error.

    Args:
        delimiter: string of one character. For ",", a header without commas may select ";", tab or "|".
        errors: string. By default, "strict", a byte below the header that is not UTF-8 is an error of the
            file; with "surrogateescape", it is one of its row, which `parse` raises.
    """

    def __init__(self, delimiter, errors="strict"):
        self._delimiter, self._errors = delimiter, errors

    def records(self, file, fields):
        rows = self._rows(file)
        header = next(rows, None)
        if header is None:
            return
        self._check_header(header, fields)
        is_empty, empty = True, []
        for row in rows:
            if len(row.data) > 1 and not any(row.data):  # the only cell of a row may be an empty text
                empty.append(row)
                continue
            for each in (*empty, row):
                yield each._replace(data=(header, each.data))
            is_empty, empty = False, []
        if is_empty:
            raise header.error("the file has a header but no rows")
        if empty:
            rows = "1 empty row" if len(empty) == 1 else f"{len(empty)} empty rows"
            _say(file.path, f"ignoring {rows} at the end")

    def parse(self, data):
        header, cells = data
        if len(cells) != len(header.data):
            raise ValueError(self._unequal(header, cells))
        if self._errors != "strict":
            for name, cell in zip(header.data, cells, strict=True):
                if _ESCAPED.search(cell):
                    raise ValueError(f"{short(name)} is not UTF-8")
        # A file that was joined to another may also have brought its byte-order mark.
        if cells[1:] == header.data[1:] != [] and cells[0].removeprefix("\ufeff") == header.data[0]:
            raise ValueError(
                f"the row repeats the header in line {header.line}; remove it, or put a header above line "
                f"{header.line} if that is a row too"
            )
        return dict(zip(header.data, map(Cell, cells), strict=True))

    def error_in_fields(self, record, reason):
        header, _ = record.data
        return header.error(reason)

    def doubt(self, record, fields):
        header, _ = record.data
        other = self._other(fields)
        if other and len(fields) == 1:
            return f"the columns seem to be separated by {other!r}: read it as csv:"
        if other:
            return _SEPARATED.format(other)
        return _NO_HEADER.format(header.line) if _is_title(fields) else ""

    def _other(self, fields):
        """Returns a separator that is in the names of fields, "" if none is."""
        return next((other for other in _OTHERS if other != self._delimiter and other in "".join(fields)), "")

    def _unequal(self, header, cells):
        """Returns the reason why a row with more or fewer cells than the header is wrong, and what to do."""
        columns = len(header.data)
        reason = f"the row has {_counted(cells)} but the header has {columns}"
        if len(cells) > columns and not any(cells[columns:]):
            return f"{reason}; if it ends in a separator that the header lacks, add that to the header"
        reason += "; a cell that contains a separator, a quote or a line end must be quoted"
        if other := self._other(header.data):
            return f"{reason}; {_SEPARATED.format(other)}"
        return f"{reason}; {_NO_HEADER.format(header.line)}" if _is_title(header.data) else reason

    def _rows(self, file):
        """Yields a `Record` of cells for each row that is not blank, including the header."""
        first = line = 1  # first line of the row; last line that has been read
        size, errors = 0, "strict"  # in the header

        def place(number):
            return Record(file.path, number, b"", 0)

        def lines():
            nonlocal line, size
            for line, data in file.lines():
                size += len(data)
                if size > MAX_ROW_BYTES:
                    raise place(first).error(
                        f"the row is longer than {MAX_ROW_BYTES >> 20} MiB: is a quote left open?"
                    )
                try:
                    yield data.decode("utf-8", errors)
                except UnicodeDecodeError as error:
                    raise place(line).error(
                        f"not UTF-8 (byte {error.start + 1} of the line); save the file as UTF-8, or convert "
                        "a file from Windows: iconv -f WINDOWS-1252 -t UTF-8 OLD.csv > NEW.csv"
                    ) from error

        read = lines()
        header = next(filter(str.strip, read), "")
        named = re.fullmatch(r'"?sep=([^\w"\s]|\t)"?\r?\n', header)  # as a line for Excel above the header
        # Spreadsheets show no row for it, unless it is quoted: then it is a cell as well.
        is_hidden = bool(named) and line == 1 and not header.startswith('"')
        header = next(filter(str.strip, read), "") if named else header
        first = line
        delimiter = named[1] if named else self._separator(file.path, header)
        rows = csv.reader(itertools.chain([header], read), delimiter=delimiter, strict=True)
        has_swallowed = False
        for row in itertools.count(first - is_hidden):
            try:
                cells = next(rows, None)
            except csv.Error as error:
                raise place(first)._replace(row=row).error(_reason(error)) from error
            if cells is None:
                return
            if line - first > _SWALLOWED and not has_swallowed:
                count = max(_rows_within(cell, delimiter, len(cells)) for cell in cells)
                if has_swallowed := count >= _SWALLOWED:
                    what = f"a cell holds {count} lines that look like rows; is a quote left open?"
                    _say(file.path, f"line {first}: {what}")
            if cells:
                yield Record(file.path, first, cells, size, row=row)
            first, size, errors = line + 1, 0, self._errors

    def _separator(self, path, header):
        """Returns the separator of the columns in this header."""
        unquoted = re.sub(r'"[^"]*"', "", header)
        counts = {other: unquoted.count(other) for other in _OTHERS}
        most = max(counts, key=counts.get)
        if self._delimiter != "," or counts[","] or not counts[most]:
            return self._delimiter
        _say(path, f"reading columns separated by {most!r}")
        return most

    def _check_header(self, header, fields):
        names = header.data
        for field, count in collections.Counter(filter(None, names)).items():
            if count > 1 and (fields is None or field in fields):
                raise header.error(f"column {short(field)} appears twice")
        for field in fields or ():
            if field not in names:
                doubt = self.doubt(header._replace(data=(header, None)), names)
                raise header.error(f"no field {field!r} (available: {named(names)}){doubt and f'; {doubt}'}")


def _rows_within(cell, delimiter, columns):
    """Returns the number of lines between a cell's first and last if each looks like a row, else 0."""
    inner = cell.split("\n")[1:-1]
    are_rows = columns > 1 and all(line.count(delimiter) == columns - 1 for line in inner)
    return len(inner) if are_rows else 0


def _say(path, what):
    """Logs something about a file, once."""
    if (path, what) not in _said:
        _said.add((path, what))
        logging.warning("%s: %s", path, what)


def _is_title(fields):
    """Returns whether what is read as names of fields may be a title, or a remark, above the header."""
    if len(fields) == 1:
        return len(fields[0].split()) > 1
    return "" in fields[1:]  # the first column of pandas, with the numbers of the rows, has no name either


def _counted(cells):
    return "1 cell" if len(cells) == 1 else f"{len(cells)} cells"


def _reason(error):
    """Turns an error of the csv module into a reason that says what to do."""
    if "unexpected end of data" in str(error):
        return 'a quote is opened in this row and never closed; write "" for a quote inside quotes'
    if "expected after" in str(error):
        return 'text follows a closing quote; write "" for a quote inside quotes'
    if "new-line" in str(error):
        return "lines must end in \\n or \\r\\n; this one contains a single \\r"
    return f"not a row of a table ({error})"
