"""The contract of a format of files: which records a file holds, and what stands in one."""

import abc
import typing

from convnlp.data.errors import SourceError


class Record(typing.NamedTuple):
    """One record as it stands in its file, with the place to name in an error.

    Attributes:
        path: string.
        line: int from 1, its (first) line or, in a file without lines, its row.
        data: what `Format.parse` reads; bytes or a dict.
        size: int, about its bytes, by which blocks are cut.
        unit: string, what `line` counts. Default "line".
    """

    path: str
    line: int
    data: object
    size: int
    unit: str = "line"

    def error(self, reason):
        """The `SourceError` that says what is wrong with this record."""
        return SourceError(f"{self.path}, {self.unit} {self.line}: {reason}")

    def without_data(self):
        """Its place alone, to keep."""
        return self._replace(data=b"")


class Format(abc.ABC):
    """Reads one kind of file. It holds no state: everything depends on the file alone."""

    pattern = "GLOB"  # what stands behind the colon of a source, in an error

    def locate(self, name, split):
        """The glob that finds the files of a source.

        Args:
            name: string, what stands behind the source's colon.
            split: string, the split's name without a slice.

        Raises:
            SourceError: if there is no such split.
        """
        return name.replace("{split}", split)

    def has_splits(self, name):
        """Whether the name stands for several splits; without it there is one, "train"."""
        return "{split}" in name

    @abc.abstractmethod
    def records(self, file, fields):
        """Yields the `Record`s of a file, always the same ones in the same order.

        Args:
            file: `convnlp.data.files.File`, with `path`, `lines()` and `opened()`. Whoever does not read by
                `lines` sets `file.progress`, from 0 to 1.
            fields: tuple of strings, the fields that will be read; the others may be left out. None: all.

        Raises:
            SourceError: names the place where the file cannot be read.
        """

    @abc.abstractmethod
    def parse(self, data):
        """The fields of a record's `data`, a dict; raises ValueError with a short reason."""

    def class_names(self, path, field):  # noqa: B027 (most formats have none)
        """Names of the classes of an integer field, in order, where the file has them; else None."""
