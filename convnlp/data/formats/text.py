"""Text without fields: documents separated by blank lines."""

from convnlp.data import records
from convnlp.data.formats.format import Format, Record

DOCUMENT_BYTES = 1 << 20  # text without blank lines is cut at the first line end after this many bytes


class Text(Format):
    """Documents in the field "text"; see `documents`."""

    may_be_a_page = True

    def records(self, file, fields):
        return documents(file.path, file.lines())

    def parse(self, data):
        return records.parse_text(data)

    def doubt(self, record, fields):
        return "text: holds texts alone; write texts and labels as csv: or jsonl:"


def documents(path, lines):
    """Yields a `Record` for each document; cuts those above `DOCUMENT_BYTES` at the end of a line.

    Args:
        path: string.
        lines: iterable of (number from 1, bytes).
    """
    document, first, size = [], 1, 0

    def whole():
        data = b"".join(document).strip()
        return Record(path, first, data, len(data))

    for number, line in lines:
        blank = not line.strip()
        if not blank:
            first = first if document else number
            document.append(line)
            size += len(line)
        if document and (blank or size >= DOCUMENT_BYTES):
            yield whole()
            document, size = [], 0
    if document:
        yield whole()
