"""What to read from a record: which texts, and which label."""

import dataclasses
from typing import ClassVar

from convnlp.data.labels import Cell, Label, MultiLabel, Number
from convnlp.data.records import value_of
from convnlp.data.rules import short

SEVERAL = "\x1e"  # between the texts of one field; ASCII's record separator
_OTHER_KINDS = {  # of labels that are no classes
    float: "; task.label_threshold=0.5 makes two classes of 0.0 and 1.0, and with task.kind=regression, "
    "finetune learns numbers",
    list: "; with task.kind=multi_label, finetune learns several labels of a text",
}


@dataclasses.dataclass(frozen=True)
class Schema:
    """The fields to read from each record.

    Args:
        texts: tuple of strings, names of text fields.
        label: `Label`, `Number`, `MultiLabel` or None.
        several: tuple of strings, those of `texts` that may hold a list of texts, or an object with such a
            list as "text". The list is read as one text, with `SEVERAL` between its entries, in which a space
            stands for that character.
    """

    texts: tuple
    label: Label | Number | MultiLabel | None = None
    several: tuple = ()

    @property
    def fields(self):
        """The names of the fields to read, texts first, a tuple of strings."""
        label = self.label.field if self.label else ()
        return self.texts + ((label,) if isinstance(label, str) else label)

    @property
    def keys(self):
        """The keys of the values, texts first; the label's is "label", whatever its field is called."""
        return self.texts + (("label",) if self.label else ())

    def values(self, record):
        """Returns a list, UTF-8 texts and the label, of a dict; raises ValueError if a field is wrong."""
        texts = [utf8(field, self._text(field, value_of(field, record))) for field in self.texts]
        return texts + ([self.label.parse(self._label_value(record))] if self.label else [])

    def _text(self, field, value):
        if field not in self.several:
            return value
        if isinstance(value, str):
            return value.replace(SEVERAL, " ")
        if isinstance(value, dict) and "text" in value:  # as in SQuAD: {"text": [...], "answer_start": [...]}
            return self._text(field, value["text"])
        if not isinstance(value, list | tuple) or not value or not all(isinstance(one, str) for one in value):
            raise ValueError(
                f"`{field}` must be a string or a non-empty list of strings. Received: {short(value)}"
            )
        return SEVERAL.join(one.replace(SEVERAL, " ") for one in value)

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
class Group:
    """A label that names the group of an example, by the text of any single value; see `Number`.

    Args:
        field: string.
    """

    field: str
    dtype: ClassVar[type] = object  # a string, to NumPy as to TensorFlow

    def parse(self, value):
        """Returns the value as UTF-8; raises ValueError if it is no string, number or boolean."""
        if not isinstance(value, str | int | float):
            raise ValueError(
                f"`{self.field}` must be a string, a number or a boolean. Received: {short(value)}"
            )
        return utf8(self.field, str(value))


@dataclasses.dataclass(frozen=True)
class OneField:
    """Reads a field as stored in the record.

    Args:
        field: string.
    """

    field: str

    @property
    def fields(self):
        """The field in a tuple."""
        return (self.field,)

    def values(self, record):
        """Returns the value in a list; raises ValueError if the field is missing."""
        return [value_of(self.field, record)]


class MissingLabelError(ValueError):
    """A record of a table has no label."""


@dataclasses.dataclass(frozen=True)
class ClassSchema(OneField):
    """Reads a label as stored in the record, before the classes are known; see `OneField`."""

    def values(self, record):
        """Returns the value in a list, a string or an integer >= 0; raises ValueError if it is neither.

        True and False, of JSON or Parquet, are the names "True" and "False", as in tables of text.
        """
        value = value_of(self.field, record)
        value = str(value) if isinstance(value, bool) else value
        if isinstance(value, Cell) and value.is_missing:
            raise MissingLabelError(f"{self.field} is missing. Received: {short(str(value))}")
        if not (value and isinstance(value, str)) and not (type(value) is int and value >= 0):
            raise ValueError(
                f"`{self.field}` must be a string or an integer >= 0{_OTHER_KINDS.get(type(value), '')}. "
                f"Received: {short(value)}"
            )
        if isinstance(value, str):
            utf8(self.field, value)  # else no report or model card with this name could be written
        return [value.stripped if isinstance(value, Cell) else value]


@dataclasses.dataclass(frozen=True)
class RecordAndTexts:
    """Reads all fields of a record as stored, and some of them as texts.

    Args:
        texts: tuple of strings, names of the text fields.
    """

    texts: tuple
    fields = None

    def values(self, record):
        """Returns (the record, a dict; its UTF-8 texts, a tuple); raises ValueError if a text is wrong."""
        return record, tuple(Schema(self.texts).values(record))


class EveryField:
    """Reads all fields of a record as stored, before it is known which of them matter."""

    fields = ()

    def values(self, record):
        """Returns the record, a dict."""
        return record


def utf8(field, value):
    """Returns a text as UTF-8; raises ValueError if the value of `field` is not one or cannot be encoded."""
    if not isinstance(value, str):
        raise ValueError(f"`{field}` must be a string. Received: {short(value)}")
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{field} holds half of a surrogate pair at character {error.start + 1}") from error
