"""Finds the columns of a data set that hold the text and the label if the user has not named them.

A role, such as "text_field", has a default name. If the data have no field of that name, another field is
used, provided that only one is possible:

1. the only field with a well-known name for the role (`ROLES`), in upper or lower case;
2. if there are exactly two columns (not counting row numbers), and the header does not seem to be a row: as
   the text, the one with long and mostly different texts; as the label, the one with few different, shorter
   values;
3. the only column, as the text.

If several fields are possible, or none, the error lists the fields. A name that the user has chosen is never
replaced.
"""

import typing

from absl import logging

from convnlp.data import sources
from convnlp.data.records import named
from convnlp.data.rules import short

SAMPLE_ROWS = 1000
MIN_TEXT_CHARACTERS = 20  # on average
MAX_CLASSES = 100
MAX_MISSING = 0.1  # share of the rows without a label
_MOST_WORDS = 3  # of a column's name
# Names that pandas and others give them.
_ROW_NUMBERS = ("", "unnamed: 0", "__index_level_0__", "id", "idx", "index")


class Role(typing.NamedTuple):
    """What a field is for: its default name, and the names that it often has."""

    default: str
    names: tuple


ROLES = {
    "text_field": Role(
        "text",
        (
            *("text", "texts", "sentence", "review", "review_text", "reviewtext", "comment", "comment_text"),
            *("content", "body", "message", "tweet", "title", "headline", "document", "utterance", "post"),
            *("question", "query", "sms", "description", "article"),
        ),
    ),
    "label_field": Role(
        "label",
        (
            *("label", "labels", "class", "category", "sentiment", "target", "y", "intent", "topic"),
            *("rating", "stars", "score", "polarity", "emotion", "coarse_label", "label_text"),
        ),
    ),
    "input_field": Role("inputs", ("inputs", "input", "source", "src", "question", "prompt", "document")),
    "target_field": Role("targets", ("targets", "target", "output", "answer", "summary", "response", "tgt")),
    "question_field": Role("question", ("question", "query")),
    "context_field": Role("context", ("context", "passage", "paragraph", "document", "article", "text")),
    "answers_field": Role("answers", ("answers", "answer", "targets", "target")),
}


def take(source, given):
    r"""Finds the fields for some roles in a source, and logs the choice in one line.

    Args:
        source: `Source`.
        given: dict, role -> name of the field; the default of `ROLES` if the user has not chosen one. Roles
            that are not in `ROLES` keep their field.

    Returns:
        dict, role -> name of the field, for those roles whose default field is missing.

    Raises:
        SourceError: if a default field is missing and not exactly one other field can replace it.

    Example:
    >>> rows = [{"Review": "A fine day in the valley.", "stars": 5}, {"Review": "A lost day.", "stars": 1}]
    >>> _ = open("days.jsonl", "w").write("\n".join(map(json.dumps, rows)))
    >>> take(Source("jsonl:days.jsonl"), {"text_field": "text", "label_field": "label"})
    {'text_field': 'Review', 'label_field': 'stars'}
    """
    sample = sources.Sample(source, SAMPLE_ROWS)
    missing = [
        role
        for role, field in given.items()
        if role in ROLES and field == ROLES[role].default and field not in sample.fields
    ]
    used = {field for field in given.values() if field in sample.fields}
    taken = {}

    def error(role, reason=""):
        doubt, is_left = sample.doubt(), not used.issuperset(sample.fields)
        advice = f"set {role} to the one to read" if is_left else f"no other field is left for {role}"
        if doubt:
            is_one = is_left and len(sample.fields) == 1  # and is not to be set: it is several columns
            advice = doubt if is_one else f"{advice}; {doubt}"
        return sample.error(f"no field {given[role]!r} (available: {named(sample.fields)}){reason}; {advice}")

    for role in missing:
        known = [field for field in sample.fields if field.strip().lower() in ROLES[role].names]
        known = [field for field in known if field not in used]
        if len(known) > 1:
            raise error(role, f"; candidates are {named(known)}")
        if known:
            taken[role] = known[0]
            used.add(known[0])
    for role in missing:
        if role not in taken:
            found = _other_column(sample, role, used)
            if found is None:
                raise error(role, _hint(sample, role))
            taken[role] = found
            used.add(found)
    if taken:
        what = " and ".join(f"{short(field)} as {role}" for role, field in taken.items())
        logging.warning("%s: using %s", source, what)
    return taken


def text(source, *names):
    r"""Finds the field that holds the text of documents, such as those of a pre-training.

    Args:
        source: `Source`.
        *names: str, the fields to prefer, the best one first.

    Returns:
        str: the first of the names that the source has, else the role's default or the field that `take`
        finds in its place.

    Raises:
        SourceError: if there is no such field and not exactly one other can replace it.

    Example:
    >>> _ = open("days.jsonl", "w").write(json.dumps({"day": 7, "body": "A fine day in the valley."}))
    >>> text(Source("jsonl:days.jsonl"), "title")
    'body'
    """
    default = ROLES["text_field"].default
    if source.kind == "tokens":  # which has no fields
        return default
    there = sources.Sample(source, 1).fields
    for name in names:
        if name in there:
            return name
    return take(source, {"text_field": default}).get("text_field", default)


def _other_column(sample, role, used):
    """Returns the only column, or the one of two that fits the role; None if this is not clear."""
    columns = _columns(sample)
    if len(columns) == 1 and role in ("text_field", "input_field") and columns[0] not in used:
        # A name like "text;label" belongs to several columns that were read with the wrong delimiter.
        return None if any(mark in columns[0] for mark in ",;\t|") else columns[0]
    fits = {"text_field": _is_text, "label_field": _is_label}.get(role)
    if len(columns) != 2 or not sample.rows or fits is None or _begins_with_a_row(sample, columns):
        return None
    found = [
        field
        for field, other in (columns, columns[::-1])
        if field not in used and fits(*([row.get(name) for row in sample.rows] for name in (field, other)))
    ]
    return found[0] if len(found) == 1 else None


def _hint(sample, role):
    """Returns a hint for the error about a role's field that was not found, or ""."""
    is_text = any(len(field.split()) > _MOST_WORDS for field in sample.fields)
    if is_text or _begins_with_a_row(sample, _columns(sample)):
        return "; if the first line of the file is not its header, put one above it"
    if role != "label_field":
        return ""
    columns = {field: [row.get(field) for row in sample.rows] for field in sample.fields}
    few = [field for field, values in columns.items() if _repeats(values)]
    return f"; fields with few different values are {named(few)}" if few else ""


def _columns(sample):
    """Returns the fields that do not number the rows."""
    return [field for field in sample.fields if field.strip().lower() not in _ROW_NUMBERS]


def _begins_with_a_row(sample, columns):
    """Returns whether the header seems to be a row: a column has its own name among its values.

    That may be chance ("spam" and "ham" in a column "spam"), so any name that is known settles it. The names
    "0", "1", ... are those of pandas.
    """
    names = [field.strip().lower() for field in columns]
    if any(name in role.names for name in names for role in ROLES.values()):
        return False
    is_numbered = names == [*map(str, range(len(names)))]
    return not is_numbered and any(row.get(field) == field for field in columns for row in sample.rows)


def _repeats(values):
    given = [value for value in values if value not in ("", None)]
    is_class = all(isinstance(value, str | int) for value in given)
    is_given = len(values) - len(given) <= MAX_MISSING * len(values)
    return is_class and is_given and 1 < len(set(given)) <= _most_classes(given)


def _is_text(values, others):
    texts = [value for value in values if isinstance(value, str)]
    return (
        len(texts) == len(values)
        and _length(texts) >= MIN_TEXT_CHARACTERS
        and _length(texts) > 2 * _length(others)
        and 2 * len(set(texts)) > len(texts)
    )


def _is_label(values, others):
    is_class = all(isinstance(value, str | int) for value in values)
    return is_class and len(set(values)) <= _most_classes(values) and _is_text(others, values)


def _most_classes(values):
    return max(2, min(MAX_CLASSES, len(values) // 5))


def _length(values):
    return sum(len(str(value)) for value in values) / len(values)
