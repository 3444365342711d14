"""Finds the names of the classes, or labels, that a source has, if the user does not list them."""

from absl import logging

from convnlp.data import tfds_source
from convnlp.data.errors import SourceError
from convnlp.data.labels import SEPARATORS, Cell, parts_of, seen, told_apart
from convnlp.data.opening import format_of, paths, stream_of
from convnlp.data.rules import short
from convnlp.data.schema import ClassSchema, MissingLabelError, OneField, utf8

MAX_RARE_CLASSES = 100  # more classes than this, with fewer than two examples each, suggest a wrong field
_NAMED_CLASSES = 5  # in a warning
_TO_NUMBERS = "; with task.kind=regression, finetune learns the numbers themselves"
_TO_LABELS = "; with task.kind=multi_label, finetune learns each of them"


def label_names(source, field="label"):
    """Returns the names of a source's classes, in order.

    Args:
        source: `Source`.
        field: string, the label's field.

    Returns:
        A tuple of strings: the names that TFDS or `hf:` has stored, or else the distinct strings of the
        field, sorted and, in a table of text, without spaces around them, or the integers from 0 to the
        highest.

    Raises:
        SourceError: if the source cannot be read, or the field holds anything but strings or integers >= 0.
            Also if there are fewer than two classes; if fewer than half of the integers up to the highest
            have an example, as after a single stray number; or if there are many values, most of which occur
            only once. These limits do not apply if the user lists the names instead.
    """
    if source.kind == "tfds":
        return tfds_source.label_names(source, field)
    stream = stream_of(source, ClassSchema(field))
    if names := format_of(source).class_names(paths(source)[0], field):
        return names
    first, count = _first_of_each(stream, field)
    if len(first) < 2:
        raise SourceError(f"{source}: `{field}` must have at least two classes. Received: {short([*first])}")
    is_table = isinstance(next(iter(first)), Cell)
    if is_table and all(cell.is_natural for cell in first):
        numbers = {int(cell): place for cell, place in first.items()}
        if max(numbers) + 1 <= 2 * len(numbers):  # else they are names that look like numbers
            first = numbers
    if isinstance(next(iter(first)), str):
        return _of_strings(source, field, first, count)
    return _of_integers(source, field, first, count)


def _first_of_each(stream, field):
    """Returns (dict, value of a field -> the place where it occurs first; the number of records)."""
    first, count, unlabelled, error_of_first = {}, 0, 0, None
    for record in stream.records():
        count += 1
        try:
            (value,) = stream.values(record)
        except SourceError as error:
            if not isinstance(error.__cause__, MissingLabelError):
                raise
            unlabelled, error_of_first = unlabelled + 1, error_of_first or error
            continue
        if value not in first:
            other = next(iter(first), value)
            if type(value) is not type(other):
                raise record.error(
                    f"`{field}` must be all strings or all integers. "
                    f"Received: {short(value)} after {short(other)}"
                )
            first[value] = record.without_data()
    if unlabelled > 1:  # said at once, so that nobody mends one row after the other
        raise SourceError(
            f"{error_of_first}; {unlabelled:,} of {count:,} rows have no {field}: label or remove them"
        )
    if error_of_first:
        raise error_of_first
    return first, count


def _of_strings(source, field, names, count):
    """Returns the names of classes that are strings, sorted, unless they seem to be something else."""
    are_fractions = isinstance(next(iter(names)), Cell) and _are_fractions(names)
    several = _several(names)
    if len(names) > max(MAX_RARE_CLASSES, count / 2):
        hint = f"; if {short(several)} is several labels, set task.kind=multi_label" if several else ""
        raise _too_many(source, field, names, count, f"{_TO_NUMBERS * are_fractions}{hint}")
    if are_fractions:
        message = "%s: %s has %d different numbers, taken for classes%s"
        logging.warning(message, source, field, len(names), _TO_NUMBERS)
    if several:
        message = "%s: %s has several labels in %s, taken for one class%s"
        logging.warning(message, source, field, short(several), _TO_LABELS)
    _warn_of_likeness(source, field, names)
    return tuple(sorted(map(str, names)))


def _too_many(source, field, values, count, hint):
    """Returns the error about a label that hardly any two of `count` examples share."""
    kind = "strings" if isinstance(next(iter(values)), str) else "integers"
    return SourceError(
        f"{source}: {field} has {len(values)} different {kind} in {count} examples; if they are "
        f"classes, list them in label_names{hint}"
    )


def _of_integers(source, field, places, count):
    """Returns the numbers of classes as names, from 0 to the highest, of which at least half must occur."""
    highest = max(places)
    if highest + 1 > 2 * len(places):
        raise places[highest].error(
            f"{field} {short(highest)} would make {short(highest + 1)} classes, of which only {len(places)} "
            "have examples; if the integers are names, list them in label_names"
        )
    if len(places) > max(MAX_RARE_CLASSES, count / 2):
        raise _too_many(source, field, places, count, _TO_NUMBERS)
    if unused := [number for number in range(highest) if number not in places]:
        what = "1 class has" if len(unused) == 1 else f"{len(unused)} classes have"
        advice = f"; for 1 to {highest} alone, list them in label_names" if unused == [0] else ""
        logging.warning("%s: %s no example: %s%s", source, what, str(unused[:_NAMED_CLASSES])[1:-1], advice)
    return tuple(map(str, range(highest + 1)))


def multi_label_names(source, field="label", separator=None):
    r"""Returns the names of a source's labels if each example has any number of them in a single field.

    Args:
        source: `Source`; not `tfds:`.
        field: string, a field with lists, or strings with separators; see `MultiLabel`.
        separator: string. Default None: the first of `labels.SEPARATORS` that occurs in a value.

    Returns:
        (tuple of strings, sorted, or integers as strings; the separator, a string).

    Raises:
        SourceError: if the source or a value cannot be read, or there are no labels, or implausibly many.
            This limit does not apply if the user lists the names instead.

    Example:
    >>> _ = open("days.csv", "w").write("text,label\nA fine day.,fine|short\nA lost day.,short\n")
    >>> multi_label_names(Source("csv:days.csv"))
    (('fine', 'short'), '|')
    """
    if source.kind == "tfds":
        raise SourceError(f"{source}: several labels in one field cannot be read; set label_fields")
    stream = stream_of(source, OneField(field))
    values = [(record.without_data(), *stream.values(record)) for record in stream.records()]
    texts = [value for _, value in values if isinstance(value, str)]
    used = [each for each in SEPARATORS if any(each in text for text in texts)]
    if len(used) > 1 and not separator:
        first, other = (short(next(text for text in texts if each in text)) for each in used[:2])
        message = (
            "%s: %s has %s in %s, which separates labels, and %s in %s; if not so, set task.options.separator"
        )
        logging.warning(message, source, field, used[0], first, used[1], other)
    separator = separator or (used or SEPARATORS)[0]
    found = set()
    for record, value in values:
        try:
            parts = parts_of(field, value, separator)
            if any(not (part and isinstance(part, str)) and type(part) is not int for part in parts):
                raise ValueError(f"`{field}` must hold names or integers. Received: {short(value)}")
            for name in (part for part in parts if isinstance(part, str)):
                utf8(field, name)  # else no report or model card with this name could be written
        except ValueError as error:
            raise record.error(error) from error
        found |= {*parts}
    numbers = {part for part in found if type(part) is int}
    if numbers and numbers == found and min(numbers) >= 0:
        if names := format_of(source).class_names(paths(source)[0], field):
            return names, separator
        if max(numbers) < 2 * len(numbers):
            return tuple(map(str, range(max(numbers) + 1))), separator
        raise SourceError(
            f"{source}: `{field}` has the label {max(numbers)}, but only {len(numbers)} have examples; "
            "list the names of all in label_names"
        )
    if not found or numbers or len(found) > max(MAX_RARE_CLASSES, len(values) / 2):
        raise SourceError(
            f"{source}: `{field}` must hold labels: either names only or integers >= 0 only. "
            f"Received: {len(found)} different values in {len(values)} examples"
        )
    return tuple(sorted(found)), separator


def _are_fractions(cells):
    """Returns whether all cells are numbers, some of them with decimals, after a point or a comma."""
    values = [Cell(cell.replace(",", ".")).number() for cell in cells]
    return all(isinstance(value, float) for value in values) and not all(map(float.is_integer, values))


def _several(names):
    """Returns a name that seems to be several labels, a list or names with a separator between; or None."""
    names = [*map(str, names)]
    if all(name.startswith("[") and name.endswith("]") for name in names):  # as pandas writes lists
        return names[0]
    known = set(names)
    for name in names:
        for separator in SEPARATORS:
            parts = [part.strip() for part in name.split(separator)]
            if len(parts) > 1 and all(parts) and known.intersection(parts):
                return name
    return None


def _warn_of_likeness(source, field, names):
    """Logs two classes that differ only in case, spaces, unseen characters or how a number is written."""
    first = {}
    for name in sorted(names):
        other = first.setdefault(seen(name), name)
        if other != name:
            logging.warning("%s: %s and %s of %s are two classes", source, *told_apart(other, name), field)
            return
