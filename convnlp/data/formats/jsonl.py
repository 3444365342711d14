"""JSON-lines: one object per line."""

from convnlp.data import records
from convnlp.data.formats.format import Format, Record


class JSONLines(Format):
    """One record a line; blank lines are skipped."""

    def records(self, file, fields):
        for number, line in file.lines():
            if not line.isspace():
                yield Record(file.path, number, line, len(line))

    def parse(self, data):
        return records.parse_json(data)
