"""Which examples to read: the name of a data set with its split, and a worker's part of it."""

import dataclasses
import itertools
import re

from convnlp.data import rules
from convnlp.data.errors import SourceError
from convnlp.data.formats import FORMATS

KINDS = ("tfds", *FORMATS, "pydocs", "tokens")
FORMS = ", ".join(
    ["tfds:NAME", *(f"{kind}:{format.pattern}" for kind, format in FORMATS.items()), "pydocs", "tokens:DIR"]
)
_SPLIT = re.compile(r"(?P<name>\w+)(\[(?P<start>-?\d+%?)?:(?P<stop>-?\d+%?)?\])?", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Source:
    """The name of a data set, a split of it, and the directory of TFDS; see `convnlp.data.sources`.

    Args:
        name: string, one of `FORMS`, or "pydocs:NUMBER".
        split: string, a split with an optional slice. Defaults to "train".
        data_dir: string, the data directory of TFDS; "" and None for its default. Default None.

    Raises:
        SourceError: if the kind of source is unknown, the split is malformed, or there is no such split.

    Example:
    >>> source = Source("jsonl:reviews.jsonl", "train[:95%]")
    >>> print(source, source.kind, source.path)
    jsonl:reviews.jsonl, split train[:95%] jsonl reviews.jsonl
    """

    name: str
    split: str = "train"
    data_dir: str | None = None

    def __post_init__(self):
        if self.kind not in KINDS or (not self.path and self.kind != "pydocs"):
            raise SourceError(f"`source` must be one of {FORMS}. Received: {self.name!r}{_meant(self.name)}")
        if self.kind == "tfds":  # which has its own syntax for splits
            return
        split = Split.parse(self.split)
        if self.kind in FORMATS:
            has_splits = FORMATS[self.kind].has_splits(self.path)
        else:
            has_splits = "{split}" in self.path
        if not has_splits and split.name != "train":
            raise SourceError(
                f"{self.name} has no split {split.name!r}: write {{split}} in place of the split's name in "
                "the files' names, or use a slice such as train[95%:]"
            )

    @property
    def kind(self):
        """The part of the name before the colon."""
        return self.name.partition(":")[0]

    @property
    def path(self):
        """The part of the name after the colon."""
        return self.name.partition(":")[2]

    @property
    def whole(self):
        """The same data set with the whole split."""
        return dataclasses.replace(self, split=self.split.partition("[")[0])

    def __str__(self):
        return f"{self.name}, split {self.split}"


def _meant(name):
    """Returns a guess at the source that a wrong name means, by its ending: "; did you mean csv:a.csv?"."""
    path = re.sub("^[A-Za-z]+:(?!//)", "", name)
    ending = path.removesuffix(".gz").removesuffix(".zst").rpartition(".")[2]
    kind = {"json": "jsonl", "ndjson": "jsonl", "txt": "text"}.get(ending, ending)
    return f"; did you mean {kind}:{path}?" if kind in FORMATS and ending != path else ""


@dataclasses.dataclass(frozen=True)
class Shard:
    """A worker's part of the examples; the parts of all workers have no example in common.

    Args:
        count: int >= 1, number of workers. Default 1.
        index: int in [0, count), this worker. Default 0.

    Raises:
        ValueError: if `count` or `index` is out of range.

    Example:
    >>> list(Shard(count=4, index=1).of(range(10)))
    [1, 5, 9]
    """

    count: int = 1
    index: int = 0

    def __post_init__(self):
        rules.integer(1).check("count", self.count)
        rules.integer(0, self.count).check("index", self.index)

    def of(self, examples):
        """Returns an iterator over this part of an iterable."""
        return itertools.islice(examples, self.index, None, self.count)


ALL = Shard()  # the part of a single worker


@dataclasses.dataclass(frozen=True)
class Split:
    """A split's name and a slice of it, as in TFDS: percentages are rounded to the nearest example.

    Args:
        name: string.
        start: string, "" or an integer with or without "%"; negative numbers count from the end.
        stop: string, as `start`.

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
        """Parses TFDS's notation; raises `SourceError` if `text` is malformed."""
        match = _SPLIT.fullmatch(text)
        if not match:
            raise SourceError(
                f"`split` must be a name with an optional slice, such as 'train[:95%]'. Received: {text!r}"
            )
        bounds = match["start"] or "", match["stop"] or ""
        if any(bound.endswith("%") and abs(int(bound[:-1])) > 100 for bound in bounds):
            raise SourceError(f"`split` must have percentages of at most 100. Received: {text!r}")
        return cls(match["name"], *bounds)

    def __str__(self):
        return self.name if self.is_whole else f"{self.name}[{self.start}:{self.stop}]"

    @property
    def is_whole(self):
        return not (self.start or self.stop)

    def bounds(self, total):
        """Returns the slice of `total` records as (first, end)."""
        return _bound(self.start, total, default=0), _bound(self.stop, total, default=total)


def _bound(text, total, default):
    if not text:
        return default
    bound = round(int(text[:-1]) * total / 100) if text.endswith("%") else int(text)
    return min(max(bound + total if text.startswith("-") else bound, 0), total)
