"""Names and slices of splits for sources that are plain files: `train`, `valid[:1000]`, `train[95%:]`."""

import dataclasses
import re

from convnlp.data.errors import SourceError

_SPLIT = re.compile(r"(?P<name>\w+)(\[(?P<start>-?\d+%?)?:(?P<stop>-?\d+%?)?\])?")


@dataclasses.dataclass(frozen=True)
class Split:
    """A split's name and a slice of it, with TFDS's meaning: `%` counts hundredths, rounded to the nearest.

    Args:
        name: string.
        start: string, "" or an integer with or without "%", negative from the end.
        stop: the same.

    Example:
    >>> split = Split.parse("train[:95%]")
    >>> split.name, split.bounds(200)
    ('train', (0, 190))
    """

    name: str
    start: str = ""
    stop: str = ""

    @classmethod
    def parse(cls, text):
        """Reads TFDS's notation; raises `SourceError` where `text` is something else."""
        match = _SPLIT.fullmatch(text)
        if not match:
            raise SourceError(
                f"split must be a name with an optional slice, such as 'train[:95%]'; received {text!r}"
            )
        return cls(match["name"], match["start"] or "", match["stop"] or "")

    @property
    def is_whole(self):
        return not (self.start or self.stop)

    def bounds(self, total):
        """The slice as (first, end) of `total` records."""
        return _bound(self.start, total, default=0), _bound(self.stop, total, default=total)


def _bound(text, total, default):
    if not text:
        return default
    bound = round(int(text[:-1]) * total / 100) if text.endswith("%") else int(text)
    return min(max(bound + total if text.startswith("-") else bound, 0), total)
