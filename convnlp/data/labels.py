"""Labels: what they are called in a record, and how their values become numbers."""

import ast
import dataclasses
import io
import itertools
import math
import numbers
import tokenize
import unicodedata
from typing import ClassVar

from convnlp.data import rules
from convnlp.data.rules import short

CLASS_NAMES = rules.sequence_of(rules.NAME, at_least=2)
MISSING = ("", "nan", "NaN", "NAN", "null", "NULL", "<NA>", "#N/A")  # how tables mark a missing value
_MAX_DIGITS = 1000  # of a number; Python converts at most 4,300
_MAX_FLOAT32 = 3.4028234663852886e38


class Cell(str):
    """The text in a cell of an untyped table, read as a number where one is wanted."""

    __slots__ = ()

    @property
    def stripped(self):
        """The `Cell` without the spaces around its text, which people type without meaning them."""
        return Cell(self.strip())

    @property
    def is_natural(self):
        """Whether the text is an integer >= 0, without leading zeros; too many digits are a name."""
        is_short = len(self) <= _MAX_DIGITS
        return is_short and self.isdecimal() and self.isascii() and (self[0] != "0" or self == "0")

    @property
    def is_missing(self):
        """Whether the text marks a missing value."""
        return self.stripped in MISSING

    def number(self):
        """Returns the text as a float, or unchanged if it is not a number."""
        try:
            return float(self)
        except ValueError:
            return self


@dataclasses.dataclass(frozen=True)
class Label:
    """A class label: a field, and how its value becomes an integer from 0 to (number of classes - 1).

    An integer is used as it is, a string is looked up in `names`, as is a boolean ("True" or "False"), and a
    fraction is compared with `threshold` (civil_comments has the share of annotators who found a comment
    toxic). In a table of text, a cell with an integer counts as one if no name is an integer, and spaces
    around the text in a cell do not count. With `by_name`, that holds for the integers of other files, too.
    With `stored`, an integer stands for one of these names.

    Args:
        field: string, name of the field.
        num_classes: int >= 2. Defaults to the number of names, or 2 with a threshold.
        names: sequence of different strings, the classes in order. Needed for string values.
        threshold: float. The class is 1 if the value, which must be a number, is at least this. Default None.
        by_name: bool. Whether an integer is looked up in `names`, as "1", if one of them is an integer.
            Default False.
        stored: sequence of strings. The names that a data set stores; its records hold places of them.
            Default None.
        has_order: bool. Whether `names` are in an order that someone chose, so that an integer can be a place
            among them. Defaults to True; False for strings that were found in a file and sorted.

    Raises:
        ValueError: if none of `names`, `num_classes` and `threshold` is given, one of them is out of range,
            or two of them disagree.

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
    by_name: bool = False
    stored: tuple | None = None
    has_order: bool = True
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
        """Same as `class_of`; see `Number`."""
        return self.class_of(value)

    def class_of(self, value):
        """Returns the class of a value as read, an int; raises ValueError if it has none."""
        value = _stored_name(value, self.stored)
        is_written = isinstance(value, bool) or (self.by_name and _have_numbers(self.names))
        if is_written and isinstance(value, numbers.Integral) and self.names and self.threshold is None:
            value = str(value)
        is_name = self.names and self.threshold is None and value in self.names
        if isinstance(value, Cell) and not is_name:
            value = self._of_cell(value)
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if self.threshold is not None:
            if not is_number or not -math.inf < value < math.inf:
                raise _no_number(self.field, value)
            return int(value >= self.threshold)
        if isinstance(value, str) and self.names:
            if value not in self.names:
                known = f"the {len(self.names)} classes {short([*self.names])}"
                raise _unknown(self.field, value, self.names, known)
            return self.names.index(value)
        is_integer = is_number and isinstance(value, numbers.Integral)
        if is_integer and self.names and not self.has_order:
            raise _no_place(self.field, value, self.names, "classes")
        if not is_integer or not 0 <= value < self.num_classes:
            raise ValueError(
                f"`{self.field}` must be an integer in [0, {self.num_classes}). Received: {short(value)}"
            )
        return int(value)

    def _of_cell(self, cell):
        if cell.is_missing:
            raise ValueError(f"{self.field} is missing. Received: {short(str(cell))}")
        cell = cell.stripped
        if self.threshold is not None:
            return cell.number()
        return int(cell) if cell.is_natural and not _have_numbers(self.names) else cell


@dataclasses.dataclass(frozen=True)
class Number:
    """A label that is a number, such as a score.

    Any object with `field`, `dtype` and `parse`, as here, can be read as a label. If `field` is a tuple of
    names, `parse` receives a tuple of values. An attribute `shape` is optional; the default is ().

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
        """Returns the value as a float; raises ValueError if it is not a finite number in float32."""
        value = value.number() if isinstance(value, Cell) else value
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not is_number or not -_MAX_FLOAT32 <= value <= _MAX_FLOAT32:
            raise _no_number(self.field, value)
        return float(value)


@dataclasses.dataclass(frozen=True)
class MultiLabel:
    """Labels of which an example may have any number: from a single field, or from one field per label.

    A single field holds a list of names, a list of their indices, or a string of names with separators; a
    cell of a table that holds a list, a tuple or a set as Python writes it is read as one. One field per
    label holds 0 or 1, true or false, or a share, which counts from 0.5.

    Args:
        field: string, or a tuple of strings, one for each name.
        names: tuple of C different strings.
        separator: string. Default None: the first of `SEPARATORS` that splits a value into known names.
        by_name, stored, has_order: as for a `Label`.

    Raises:
        ValueError: if the numbers of names and fields differ, or the names or the fields are not different
            strings.

    Example:
    >>> MultiLabel("topics", names=("World", "Sports", "Arts")).parse("Arts, World")
    (1.0, 0.0, 1.0)
    >>> MultiLabel(("toxic", "insult"), names=("toxic", "insult")).parse((1, 0.2))
    (1.0, 0.0)
    """

    field: str | tuple
    names: tuple
    separator: str | None = None
    by_name: bool = False
    stored: tuple | None = None
    has_order: bool = True
    dtype: ClassVar[str] = "float32"  # as losses expect; `shape` distinguishes it from `Number`

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
                    "`label_names` must have as many entries as `label_fields`. "
                    f"Received: {len(self.names)} names, {len(self.field)} fields"
                )

    @property
    def shape(self):
        """The shape of an example's label, (C,)."""
        return (len(self.names),)

    def parse(self, value):
        """Turns the value of the field, or a tuple of the fields' values, into C zeros and ones, a tuple."""
        if isinstance(self.field, tuple):
            return tuple(float(_share(name, one) >= 0.5) for name, one in zip(self.field, value, strict=True))
        given = {self._index(_stored_name(name, self.stored)) for name in self._split(value)}
        return tuple(float(number in given) for number in range(len(self.names)))

    def _split(self, value):
        separators = [self.separator] if self.separator else SEPARATORS
        parts = [parts_of(self.field, value, separator) for separator in separators]
        # Not sets: a record may hold lists or objects in place of names.
        return next((part for part in parts if all(name in self.names for name in part)), parts[0])

    def _index(self, name):
        if type(name) is int and self.by_name and _have_numbers(self.names):
            name = str(name)
        if isinstance(name, str) and name in self.names:
            return self.names.index(name)
        if type(name) is int and not self.has_order:
            raise _no_place(self.field, name, self.names, "labels")
        if type(name) is int and 0 <= name < len(self.names):
            return name
        raise _unknown(self.field, name, self.names, f"the {len(self.names)} labels")


SEPARATORS = (",", ";", "|")
_CLOSING = {"[": "]", "(": ")", "{": "}"}  # of what Python writes for several values
_LABELS = rules.sequence_of(rules.NAME, at_least=1)


def parts_of(field, value, separator):
    """Returns the labels that a single field holds, a list.

    Args:
        field: string, name of the field.
        value: list or string.
        separator: string, between the labels in a string.

    Raises:
        ValueError: if the value is neither a list nor a string, or a mark of a missing value; an empty text
            holds no labels.
    """
    if isinstance(value, Cell) and value.strip() and value.is_missing:
        raise ValueError(f"{field} is missing. Received: {short(str(value))}")
    if isinstance(value, Cell):
        value = _listed(field, value.stripped)
    if isinstance(value, str):
        return [part.strip() for part in value.split(separator) if part.strip()]
    if not isinstance(value, list | tuple | set):
        raise ValueError(
            f"`{field}` must be a list of labels, or a string of labels with separators. "
            f"Received: {short(value)}"
        )
    return [*value]


def _listed(field, cell):
    """Returns the list, tuple or set that a cell holds as Python writes it; any other cell unchanged."""
    if not cell or _CLOSING.get(cell[0]) != cell[-1]:
        return cell
    try:
        value = ast.literal_eval(cell)
        tokens = [token.type for token in tokenize.generate_tokens(io.StringIO(cell).readline)]
    except (ValueError, SyntaxError, tokenize.TokenError, MemoryError, RecursionError) as error:
        if cell[0] != "[":  # "(none)" is a name
            return cell
        raise ValueError(f"`{field}` must be a list. Received: {short(str(cell))}") from error
    tokens = [kind for kind in tokens if kind != tokenize.NL]
    if (tokenize.STRING, tokenize.STRING) in itertools.pairwise(tokens):  # which Python joins to one
        raise ValueError(
            f"`{field}` must be a list with commas between its labels, which NumPy does not write; call "
            f"`tolist()` first. Received: {short(str(cell))}"
        )
    return value if isinstance(value, list | tuple | set) else cell


def have_order(names, given=()):
    """Returns whether names of classes are in an order that someone chose.

    Args:
        names: sequence of strings.
        given: names that the user has listed, if any.

    Returns:
        bool: False for names that nobody has listed and that are sorted, as `label_names` sorts strings.
    """
    return bool(given) or list(names) != sorted(names)


def _stored_name(value, stored):
    """Returns the name for which an integer stands in a data set that stores names; all else unchanged."""
    is_place = stored and isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return stored[value] if is_place and 0 <= value < len(stored) else value


def _no_place(field, value, names, kind):
    """Returns the error about an integer where names are known in no order but the alphabet's."""
    return ValueError(
        f"{field} {short(value)} is not one of the {len(names)} {kind} {short([*names])}; if integers stand "
        "for them, list them in label_names, in the order of the integers"
    )


def _have_numbers(names):
    """Returns whether a name is an integer, without which integers can only be places."""
    return any(Cell(name).is_natural for name in names or ())


def seen(name):
    """Returns what a reader sees of a name, with all letters small, or the number that it is."""
    cell = Cell(name)
    number = int(cell) if cell.is_natural else cell.number()  # a long id is more exact than a float
    if isinstance(number, (int, float)):  # pandas writes 1 as 1.0 if a value of the column is missing
        return number
    kept = "".join(each for each in name if unicodedata.category(each) != "Cf")  # such as zero-width spaces
    return " ".join(unicodedata.normalize("NFKC", kept).casefold().split())


def told_apart(*names):
    """Returns two names as an error shows them: in ASCII if a reader would see no difference."""
    are_plain = all(map(str.isprintable, names))
    if are_plain and len({unicodedata.normalize("NFC", name) for name in names}) == 2:
        return [*map(short, names)]
    return [*map(ascii, names)]


def _unknown(field, value, names, known):
    """Returns the error about a value that is none of the names, which may look like one of them."""
    is_name = isinstance(value, str)
    if is_name and (alike := next((name for name in names if seen(name) == seen(value)), None)):
        value, alike = told_apart(value, alike)
        return ValueError(f"{field} {value} is not one of {known}; did you mean {alike}?")
    return ValueError(f"{field} {short(value)} is not one of {known}")


def _no_number(field, value):
    """Returns the error about a value that is not a finite number, such as one with a decimal comma."""
    has_comma = isinstance(value, str) and "," in value
    is_number = has_comma and isinstance(Cell(value.replace(",", ".")).number(), float)
    point = ", with a point before its decimals" if is_number else ""
    return ValueError(f"`{field}` must be a finite number{point}. Received: {short(value)}")


def _share(field, value):
    """Returns a value that says whether an example has a label as a float in [0, 1]."""
    if isinstance(value, Cell):
        value = {"true": 1.0, "false": 0.0}.get(value.strip().lower(), value.number())
    if not isinstance(value, numbers.Real) or not 0 <= value <= 1:
        raise ValueError(f"`{field}` must be a number in [0, 1]. Received: {short(value)}")
    return float(value)
