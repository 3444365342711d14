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
_OTHERS = ",;\t|"  # possible separators
_said = set()  # (path, separator) of files for which another separator was logged

# This limit applies to the whole process; the module's default, 128 KiB, is too small for long documents.
csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_BYTES))


class Delimited(Format):
    """Rows below a header, with cells quoted as in RFC 4180; quoted cells may contain line ends.

    In half of the world, spreadsheets write CSV with semicolons: if the header has no comma, the separator
    that it has instead is used. A first line such as "sep=;", which Excel reads so, names the separator.

    Args:
        delimiter: string of one character. For ",", a header without commas may select ";", tab or "|".
    """

    def __init__(self, delimiter):
        self._delimiter = delimiter

    def records(self, file, fields):
        rows = self._rows(file)
        header = next(rows, None)
        if header is None:
            return
        self._check_header(header, fields)
        row = None
        for row in rows:
            yield row._replace(data=(header, row.data))
        if row is None:
            raise header.error("the file has a header but no rows")

    def parse(self, data):
        header, cells = data
        if len(cells) != len(header.data):
            raise ValueError(
                f"the row has {len(cells)} cells but the header has {len(header.data)}; a cell that contains "
                "a separator, a quote or a line end must be quoted"
            )
        return dict(zip(header.data, map(Cell, cells), strict=True))

    def error_in_fields(self, record, reason):
        header, _ = record.data
        return header.error(reason)

    def _rows(self, file):
        """Yields a `Record` of cells for each row that is not blank, including the header."""
        first = line = 1  # first line of the row; last line that has been read
        size = 0

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
                    yield data.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise place(line).error(
                        f"not UTF-8 (byte {error.start + 1} of the line); save the file as UTF-8, or convert "
                        "a file from Windows: iconv -f WINDOWS-1252 -t UTF-8 OLD.csv > NEW.csv"
                    ) from error

        read = lines()
        header = next(filter(str.strip, read), "")
        named = re.fullmatch(r'"?sep=([^\w"\s]|\t)"?\r?\n', header)  # as a line for Excel above the header
        header = next(filter(str.strip, read), "") if named else header
        first = line
        delimiter = named[1] if named else self._separator(file.path, header)
        rows = csv.reader(itertools.chain([header], read), delimiter=delimiter, strict=True)
        while True:
            try:
                cells = next(rows, None)
            except csv.Error as error:
                raise place(first).error(_reason(error)) from error
            if cells is None:
                return
            if cells:
                yield Record(file.path, first, cells, size)
            first, size = line + 1, 0

    def _separator(self, path, header):
        """Returns the separator of the columns in this header."""
        unquoted = re.sub(r'"[^"]*"', "", header)
        counts = {other: unquoted.count(other) for other in _OTHERS}
        most = max(counts, key=counts.get)
        if self._delimiter != "," or counts[","] or not counts[most]:
            return self._delimiter
        if (path, most) not in _said:
            _said.add((path, most))
            logging.warning("%s: reading columns separated by %r", path, most)
        return most

    def _check_header(self, header, fields):
        names = header.data
        for field, count in collections.Counter(filter(None, names)).items():
            if count > 1 and (fields is None or field in fields):
                raise header.error(f"column {short(field)} appears twice")
        for field in fields or ():
            if field in names:
                continue
            missing = f"no field {field!r} (available: {named(names)})"
            others = [other for other in _OTHERS if other != self._delimiter and other in "".join(names)]
            if len(names) == 1 and others:
                missing += f"; the columns seem to be separated by {others[0]!r}: read it as csv:"
            raise header.error(missing)


def _reason(error):
    """Turns an error of the csv module into a reason that says what to do."""
    if "unexpected end of data" in str(error):
        return 'a quote is opened in this row and never closed; write "" for a quote inside quotes'
    if "expected after" in str(error):
        return 'text follows a closing quote; write "" for a quote inside quotes'
    if "new-line" in str(error):
        return "lines must end in \\n or \\r\\n; this one contains a single \\r"
    return f"not a row of a table ({error})"
