"""What is read of a record: which texts, and which label with which meaning."""

import dataclasses
import json
import numbers


@dataclasses.dataclass(frozen=True)
class Label:
    """A class label: a field, and how its value becomes an integer from 0 to (number of classes - 1).

    An integer is taken as it is, a string is looked up in `names`, a fraction is compared with `threshold`
    (civil_comments has the share of annotators who found a comment toxic).

    Args:
        field: string, name of the field.
        num_classes: int >= 2. Defaults to the number of names, or 2 with a threshold.
        names: tuple of strings, the classes in order. Needed for string values.
        threshold: float. The class is 1 where the value is at least this. Default None.

    Raises:
        ValueError: if neither names, num_classes nor threshold is given, or two of them disagree.

    Example:
    >>> Label("topic", names=("World", "Sports")).class_of("Sports")
    1
    >>> Label("toxicity", threshold=0.5).class_of(0.7)
    1
    """

    field: str = "label"
    num_classes: int | None = None
    names: tuple | None = None
    threshold: float | None = None

    def __post_init__(self):
        counts = {self.num_classes, self.names and len(self.names), self.threshold is not None and 2} - {
            None,
            False,
        }
        if len(counts) != 1:
            raise ValueError(
                "a label needs num_classes, names or threshold, and they must agree; received "
                f"num_classes={self.num_classes}, names={self.names}, threshold={self.threshold}"
            )
        object.__setattr__(self, "num_classes", counts.pop())

    def class_of(self, value):
        """The class of a value as it was read; raises ValueError where it has none."""
        if self.threshold is not None and isinstance(value, numbers.Real) and not isinstance(value, bool):
            return int(value >= self.threshold)
        if isinstance(value, str) and self.names:
            if value not in self.names:
                raise ValueError(f"{self.field} {_short(value)} is none of the {len(self.names)} classes")
            return self.names.index(value)
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise ValueError(
                f"{self.field} must be an integer below {self.num_classes}; found {_short(value)}"
            )
        if not 0 <= value < self.num_classes:
            raise ValueError(
                f"{self.field} {value} is out of range: there are {self.num_classes} classes, from 0"
            )
        return int(value)


@dataclasses.dataclass(frozen=True)
class Schema:
    """The fields to read from each record.

    Args:
        texts: tuple of strings, names of text fields.
        label: `Label` or None.
    """

    texts: tuple
    label: Label | None = None

    @property
    def keys(self):
        """Keys of what is read, texts first; the label's is "label" whatever its field is called."""
        return self.texts + (("label",) if self.label else ())

    def values(self, record):
        """UTF-8 texts, and the class, of a dict; raises ValueError where a field is missing or wrong."""
        for field in self.texts + ((self.label.field,) if self.label else ()):
            if field not in record:
                raise ValueError(f"no field {field!r} (there are: {', '.join(map(repr, record)) or 'none'})")
        texts = [_utf8(field, record[field]) for field in self.texts]
        return texts + ([self.label.class_of(record[self.label.field])] if self.label else [])


def parse_json(data):
    """The object in a line of a JSON-lines file; raises ValueError with a short reason."""
    try:
        record = json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 (byte {error.start + 1} of the line)") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from error
    if not isinstance(record, dict):
        raise ValueError(f"not a JSON object: {_short(record)}")
    return record


def parse_text(data):
    """The record of a document of a text file; raises ValueError with a short reason."""
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 (byte {error.start + 1} of the document)") from error


def _utf8(field, value):
    if not isinstance(value, str):
        raise ValueError(f"{field} must be a string; found {_short(value)}")
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{field} holds half of a surrogate pair at character {error.start + 1}") from error


def _short(value):
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
