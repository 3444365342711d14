"""The interface of file formats: which records a file holds, and how to parse them."""

import abc
import typing

from convnlp.data.errors import SourceError


class Record(typing.NamedTuple):
    """A record as stored in its file, with its place for error messages.

    Attributes:
        path: string.
        line: int from 1, its (first) line or, in a file without lines, its row.
        data: what `Format.parse` takes, for example bytes or a dict.
        size: int, approximate number of bytes, by which blocks are cut.
        unit: string, what `line` counts. Default "line".
        row: int from 1, the row in which a spreadsheet shows the record, if that may be another number.
            Default None.
    """

    path: str
    line: int
    data: object
    size: int
    unit: str = "line"
    row: int | None = None

    def error(self, reason):
        """Returns a `SourceError` with the place of this record and a reason, a string."""
        row = "" if self.row in (None, self.line) else f" (row {self.row} in a spreadsheet)"
        return SourceError(f"{self.path}, {self.unit} {self.line}{row}: {reason}")

    def without_data(self):
        """Returns only the place of the record."""
        return self._replace(data=b"")


class Format(abc.ABC):
    """Reads one kind of file. It has no state: everything depends only on the file."""

    pattern = "GLOB"  # describes the part after a source's colon, in an error
    may_be_a_page = False  # whether a file of it may begin as HTML does

    def locate(self, name, split):
        """Returns the globs that match the files of a source, a list of strings, each of at least one file.

        Args:
            name: string, the part after the source's colon.
            split: string, the split's name without a slice.

        Raises:
            SourceError: if there is no such split.
        """
        return [name.replace("{split}", split)]

    def has_splits(self, name):
        """Returns whether the name stands for several splits; if not, the only split is "train"."""
        return "{split}" in name

    @abc.abstractmethod
    def records(self, file, fields):
        """Yields the `Record`s of a file, always the same ones in the same order.

        Args:
            file: `convnlp.data.files.File`, with `path`, `lines()` and `opened()`. A format that does not use
                `lines` must set `file.progress`, from 0 to 1.
            fields: tuple of strings, the fields to read; others may be omitted. None for all, of which no two
                may have one name; () for what there is, whatever it is.

        Raises:
            SourceError: if the file cannot be read; the message names the place.
        """

    @abc.abstractmethod
    def parse(self, data):
        """Parses a record's `data` into a dict of its fields; raises ValueError with a short reason."""

    def error_in_fields(self, record, reason):
        """Returns a `SourceError` about the names of the fields, which the first record of a slice showed.

        Args:
            record: `Record`.
            reason: string.
        """
        return record.error(reason)

    def doubt(self, record, fields):
        """Returns what may be wrong with a file that lacks a field, and what to do; "" if unknown.

        Args:
            record: `Record`, its first one.
            fields: list of strings, the fields that it has.
        """
        return ""

    def class_names(self, path, field):  # noqa: B027 (most formats have none)
        """Returns the class names of an integer field, a tuple in order, if the file has them; else None."""
