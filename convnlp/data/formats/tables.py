"""Rows of Arrow record batches from any kind of file."""

import contextlib

from convnlp.data.arrow import pyarrow
from convnlp.data.errors import SourceError
from convnlp.data.formats.format import Format, Record
from convnlp.data.records import named

BATCH_ROWS = 1024


class Table(Format):
    """A format whose files have a schema."""

    def parse(self, data):
        return data

    def error_in_fields(self, record, reason):
        return SourceError(f"{record.path}: {reason}")


@contextlib.contextmanager
def reading(path):
    """Yields the module pyarrow, and turns its errors into a `SourceError` that names the file."""
    arrow = pyarrow(path)
    try:
        yield arrow
    except SourceError:
        raise
    except (arrow.ArrowException, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise SourceError(f"{path}: cannot be read: {reason}") from error


def columns(path, schema, fields):
    """Returns the columns to read from a table.

    Args:
        path: string.
        schema: pyarrow.Schema.
        fields: tuple of strings, the requested fields; None for all; () for what there is, so that a name
            which two columns have is known too.

    Returns:
        A list of different strings.

    Raises:
        SourceError: if a field is missing, or two columns have its name.

    Example:
    >>> import pyarrow
    >>> columns("days.parquet", pyarrow.schema([("day", "int64"), ("text", "string")]), ("text",))
    ['text']
    """
    for field in schema.names if fields is None else fields:
        if field not in schema.names:
            raise SourceError(f"{path}: no field {field!r} (available: {named(schema.names)})")
        if schema.names.count(field) > 1:
            raise SourceError(f"{path}: column {field!r} appears twice")
    return list(dict.fromkeys(fields or schema.names))


def rows(path, batches, names):
    """Yields the rows of record batches as `Record`s numbered from 1, with only the columns `names`.

    Of several columns of one name, it is the last, as in a CSV file.
    """
    first = 1
    for batch in batches:
        places = {name: place for place, name in enumerate(batch.schema.names)}
        for start in range(0, batch.num_rows, BATCH_ROWS):
            part = batch.slice(start, BATCH_ROWS).select([places[name] for name in names])
            size = part.nbytes // part.num_rows + 1
            for number, row in enumerate(part.to_pylist(), first + start):
                yield Record(path, number, row, size, "row")
        first += batch.num_rows
