"""What is read of a record: which texts, and which label with which meaning."""

import ast
import collections
import dataclasses
import json
import math
import numbers
from typing import ClassVar

from convnlp.data import rules
from convnlp.data.rules import short

CLASS_NAMES = rules.sequence_of(rules.NAME, at_least=2)
MISSING = ("", "nan", "NaN", "NAN", "null", "NULL", "<NA>", "#N/A")  # how tables write that there is no value
SEVERAL = "\x1e"  # between the texts of one field; ASCII's separator of records
_MAX_FLOAT32 = 3.4028234663852886e38
_NAMED_FIELDS = 10  # of a record, in an error


class Cell(str):
    """The text of a cell of a table without types: an integer or a number where one is wanted."""

    __slots__ = ()

    @property
    def is_natural(self):
        """Whether it is an integer from 0 as it is usually written."""
        return self.isdecimal() and self.isascii() and (self[0] != "0" or self == "0")

    @property
    def is_missing(self):
        """Whether it stands for a value that is not there."""
        return self.strip() in MISSING

    def number(self):
        """As a float; itself where it is none."""
        try:
            return float(self)
        except ValueError:
            return self


@dataclasses.dataclass(frozen=True)
class Label:
    """A class label: a field, and how its value becomes an integer from 0 to (number of classes - 1).

    An integer is taken as it is, a string is looked up in `names`, a fraction is compared with `threshold`
    (civil_comments has the share of annotators who found a comment toxic).

    Args:
        field: string, name of the field.
        num_classes: int >= 2. Defaults to the number of names, or 2 with a threshold.
        names: sequence of different strings, the classes in order. Needed for string values.
        threshold: float. The class is 1 where the value is at least this. Default None.

    Raises:
        ValueError: if neither names, num_classes nor threshold is given, one of them is out of range, or two
            of them disagree.

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
    dtype: ClassVar[str] = "int64"

    def __post_init__(self):
        rules.NAME.check("label field", self.field)
        counts = set()
        if self.names is not None:
            CLASS_NAMES.check("label_names", self.names)
            object.__setattr__(self, "names", tuple(self.names))
            counts.add(len(self.names))
        if self.num_classes is not None:
            rules.integer(2).check("num_classes", self.num_classes)
            counts.add(int(self.num_classes))
        if self.threshold is not None:
            rules.number("(-inf, inf)").check("label_threshold", self.threshold)
            counts.add(2)
        if len(counts) != 1:
            raise ValueError(
                "A label must have `num_classes`, `names` or `threshold`, and they must agree. Received: "
                f"num_classes={self.num_classes}, names={short(self.names)}, threshold={self.threshold}"
            )
        object.__setattr__(self, "num_classes", counts.pop())

    def parse(self, value):
        """As `class_of`."""
        return self.class_of(value)

    def class_of(self, value):
        """The class of a value as it was read; raises ValueError where it has none."""
        is_name = self.names and self.threshold is None and value in self.names
        if isinstance(value, Cell) and not is_name:
            value = self._of_cell(value)
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if self.threshold is not None and is_number:
            if not -math.inf < value < math.inf:
                raise ValueError(f"`{self.field}` must be a finite number. Received: {value}")
            return int(value >= self.threshold)
        if isinstance(value, str) and self.names:
            if value not in self.names:
                raise ValueError(f"{self.field} {short(value)} is none of the {len(self.names)} classes")
            return self.names.index(value)
        if not is_number or not isinstance(value, numbers.Integral):
            raise ValueError(
                f"`{self.field}` must be an integer in [0, {self.num_classes}). Received: {short(value)}"
            )
        if not 0 <= value < self.num_classes:
            raise ValueError(
                f"{self.field} {short(value)} is out of range: there are {self.num_classes} classes, from 0"
            )
        return int(value)

    def _of_cell(self, cell):
        if cell.is_missing:
            raise ValueError(f"{self.field} is missing. Received: {short(str(cell))}")
        if self.threshold is not None:
            return cell.number()
        return int(cell) if cell.is_natural and not self.names else cell


@dataclasses.dataclass(frozen=True)
class Number:
    """A label that is a number, such as a score.

    Anything with its `field`, `dtype` and `parse` can be read as a label; `field` may be a tuple of names,
    and `parse` is given a tuple of values then. Its `shape` is () where it has none.

    Args:
        field: string, name of the field.

    Example:
    >>> Number("score").parse(4)
    4.0
    """

    field: str = "label"
    dtype: ClassVar[str] = "float32"

    def __post_init__(self):
        rules.NAME.check("label field", self.field)

    def parse(self, value):
        """The value as a float; raises ValueError where it is no finite number of this type."""
        value = value.number() if isinstance(value, Cell) else value
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not is_number or not -_MAX_FLOAT32 <= value <= _MAX_FLOAT32:
            raise ValueError(f"{self.field} must be a finite number; found {short(value)}")
        return float(value)


@dataclasses.dataclass(frozen=True)
class MultiLabel:
    """Labels of which an example may have any number: from one field, or from a field for each.

    One field holds a list of names, of numbers of names, or a string with separators between names; "[...]"
    in a cell of a table is read as a list. Fields for each hold 0 or 1, true or false, or a share, of which
    0.5 and more counts.

    Args:
        field: string, or a tuple of strings, one for each name.
        names: tuple of C different strings.
        separator: string. Default None: the first of `SEPARATORS` by which a value falls into known names.

    Raises:
        ValueError: if there are not as many names as fields, or names or fields are not different strings.

    Example:
    >>> MultiLabel("topics", names=("World", "Sports", "Arts")).parse("Arts, World")
    (1.0, 0.0, 1.0)
    >>> MultiLabel(("toxic", "insult"), names=("toxic", "insult")).parse((1, 0.2))
    (1.0, 0.0)
    """

    field: str | tuple
    names: tuple
    separator: str | None = None
    dtype: ClassVar[str] = "float32"  # as losses want it; `shape` tells it from a number

    def __post_init__(self):
        _LABELS.check("label_names", self.names)
        object.__setattr__(self, "names", tuple(self.names))
        if isinstance(self.field, str):
            rules.NAME.check("label field", self.field)
        else:
            _LABELS.check("label_fields", self.field)
            object.__setattr__(self, "field", tuple(self.field))
            if len(self.field) != len(self.names):
                raise ValueError(
                    f"`label_names` must be as many as `label_fields`. Received: {len(self.names)} names, "
                    f"{len(self.field)} fields"
                )

    @property
    def shape(self):
        """Of an example's label."""
        return (len(self.names),)

    def parse(self, value):
        """The value of the field, or a tuple of those of the fields, as zeros and ones."""
        if isinstance(self.field, tuple):
            return tuple(float(_share(name, one) >= 0.5) for name, one in zip(self.field, value, strict=True))
        given = {self._index(name) for name in self._split(value)}
        return tuple(float(number in given) for number in range(len(self.names)))

    def _split(self, value):
        separators = [self.separator] if self.separator else SEPARATORS
        parts = [parts_of(self.field, value, separator) for separator in separators]
        return next((part for part in parts if {*part} <= {*self.names}), parts[0])

    def _index(self, name):
        if isinstance(name, str) and name in self.names:
            return self.names.index(name)
        if type(name) is int and 0 <= name < len(self.names):
            return name
        raise ValueError(f"{self.field} {short(name)} is none of the {len(self.names)} labels")


SEPARATORS = (",", ";", "|")
_LABELS = rules.sequence_of(rules.NAME, at_least=1)


def parts_of(field, value, separator):
    """The labels of an example as they stand in one field, a list; raises ValueError where it is neither.

    Args:
        field: string, its name.
        value: list or string.
        separator: string.
    """
    if isinstance(value, Cell) and value.startswith("[") and value.endswith("]"):
        try:
            value = ast.literal_eval(value)  # as pandas writes a list
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            raise ValueError(f"{field} {short(str(value))} is no list") from error
    if isinstance(value, str):
        return [part.strip() for part in value.split(separator) if part.strip()]
    if not isinstance(value, list | tuple):
        raise ValueError(
            f"`{field}` must be a list of labels, or a string with separators between them. "
            f"Received: {short(value)}"
        )
    return [*value]


def _share(field, value):
    """A float in [0, 1] of what says whether an example has a label."""
    if isinstance(value, Cell):
        value = {"true": 1.0, "false": 0.0}.get(value.strip().lower(), value.number())
    if not isinstance(value, numbers.Real) or not 0 <= value <= 1:
        raise ValueError(f"`{field}` must be 0 or 1, or a share between them. Received: {short(value)}")
    return float(value)


@dataclasses.dataclass(frozen=True)
class Schema:
    """The fields to read from each record.

    Args:
        texts: tuple of strings, names of text fields.
        label: `Label`, `Number`, `MultiLabel` or None.
        several: tuple of strings, those of `texts` that may hold a list of texts, also as the "text" of an
            object, which are read as one, with `SEVERAL` between them.
    """

    texts: tuple
    label: Label | Number | MultiLabel | None = None
    several: tuple = ()

    @property
    def fields(self):
        """Names of the fields of a record that are read."""
        label = self.label.field if self.label else ()
        return self.texts + ((label,) if isinstance(label, str) else label)

    @property
    def keys(self):
        """Keys of what is read, texts first; the label's is "label" whatever its field is called."""
        return self.texts + (("label",) if self.label else ())

    def values(self, record):
        """UTF-8 texts, and the label, of a dict; raises ValueError where a field is missing or wrong."""
        texts = [_utf8(field, self._text(field, value_of(field, record))) for field in self.texts]
        return texts + ([self.label.parse(self._label_value(record))] if self.label else [])

    def _text(self, field, value):
        if field not in self.several or isinstance(value, str):
            return value
        if isinstance(value, dict) and "text" in value:  # of SQuAD, {"text": [...], "answer_start": [...]}
            return self._text(field, value["text"])
        if not isinstance(value, list | tuple) or not value or not all(isinstance(one, str) for one in value):
            raise ValueError(
                f"`{field}` must be a string, or a list of one or more. Received: {short(value)}"
            )
        return SEVERAL.join(value)

    def _label_value(self, record):
        field = self.label.field
        if isinstance(field, tuple):
            return tuple(value_of(each, record) for each in field)
        return value_of(field, record)

    @property
    def label_shape(self):
        """The shape of an example's label, a tuple."""
        return getattr(self.label, "shape", ())


@dataclasses.dataclass(frozen=True)
class ClassSchema:
    """A label's value as it stands in the record, before it is known which classes there are.

    Args:
        field: string.
    """

    field: str

    @property
    def fields(self):
        """The same, in a tuple."""
        return (self.field,)

    def values(self, record):
        """The value alone, a string or an integer from 0; raises ValueError where it is not a class."""
        value = value_of(self.field, record)
        if isinstance(value, Cell) and value.is_missing:
            raise ValueError(f"{self.field} is missing. Received: {short(str(value))}")
        if not (value and isinstance(value, str)) and not (type(value) is int and value >= 0):
            raise ValueError(f"`{self.field}` must be a string or an integer >= 0. Received: {short(value)}")
        return [value]


@dataclasses.dataclass(frozen=True)
class OneField:
    """The value of a field as it stands in a record.

    Args:
        field: string.
    """

    field: str

    @property
    def fields(self):
        """The same, in a tuple."""
        return (self.field,)

    def values(self, record):
        """The value alone; raises ValueError where the field is missing."""
        return [value_of(self.field, record)]


@dataclasses.dataclass(frozen=True)
class RecordAndTexts:
    """All fields of a record as they stand in it, and some texts among them.

    Args:
        texts: tuple of strings, names of the text fields.
    """

    texts: tuple
    fields = None

    def values(self, record):
        """(the record, a dict; its UTF-8 texts, a tuple); raises ValueError where one is missing or wrong."""
        return record, tuple(Schema(self.texts).values(record))


class EveryField:
    """All fields of a record as they stand in it, before it is known which there are."""

    fields = None

    def values(self, record):
        """The record, a dict."""
        return record


def value_of(field, record):
    """The value of a record's field; raises ValueError that says which fields there are."""
    if field not in record:
        raise ValueError(f"no field {field!r} (there are: {named(record)})")
    return record[field]


def named(fields):
    """The names of some fields, the first ten of them, as an error lists them."""
    there = [*map(short, list(fields)[:_NAMED_FIELDS]), *["..."][: len(fields) > _NAMED_FIELDS]]
    return ", ".join(there) or "none"


def parse_json(data):
    """The object in a line of a JSON-lines file; raises ValueError with a short reason."""
    try:
        record = json.loads(data.decode("utf-8"), object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 (byte {error.start + 1} of the line)") from error
    except RecursionError as error:
        raise ValueError("not JSON of a moderate depth") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error})") from error
    if not isinstance(record, dict):
        raise ValueError(f"not a JSON object: {short(record)}")
    return record


def _object(pairs):
    """A JSON object; of two values of the same field the reader would silently take one."""
    record = dict(pairs)
    if len(record) < len(pairs):
        ((name, _),) = collections.Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"field {short(name)} stands there twice")
    return record


def parse_text(data):
    """The record of a document of a text file; raises ValueError with a short reason."""
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 (byte {error.start + 1} of the document)") from error


def _utf8(field, value):
    if not isinstance(value, str):
        raise ValueError(f"`{field}` must be a string. Received: {short(value)}")
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{field} holds half of a surrogate pair at character {error.start + 1}") from error
