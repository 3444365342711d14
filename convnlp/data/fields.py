"""Which columns of a data set hold the text and the label, where nobody has said so.

A role, such as "text_field", has a default name. If the data have no field of that name, another one is taken
if it is the only one that it can be:

1. the only field with a name that is well known for the role (`ROLES`), in capitals or not;
2. of exactly two columns (numbers of rows beside them do not count) the one with long texts, most of them
   different, as the text; the one with few different, shorter values as the label;
3. the only column, as the text.

Where there are several, or none, the error lists the fields. A name that somebody has chosen is never
replaced.
"""

import typing

from absl import logging

from convnlp.data import sources
from convnlp.data.rules import short
from convnlp.data.schema import named

SAMPLE_ROWS = 1000
MIN_TEXT_CHARACTERS = 20  # on average
MAX_CLASSES = 100
_MOST_WORDS = 3  # of a column's name
_ROW_NUMBERS = ("", "unnamed: 0", "id", "idx", "index")  # as pandas and others call them


class Role(typing.NamedTuple):
    """What a field is for: the name that it has unless told otherwise, and what others call it."""

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
    r"""Finds the fields of some roles in a source, and says in one line what it took.

    Args:
        source: `Source`.
        given: dict, role -> name of the field, `ROLES`' default where nobody has chosen it. A role that
            `ROLES` does not know keeps its name.

    Returns:
        dict, role -> name of the field, of the roles whose field was not there.

    Raises:
        SourceError: if a default is not there and nothing, or more than one field, can be taken in its place.

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
        return sample.error(
            f"no field {given[role]!r} (there are: {named(sample.fields)}){reason}; "
            f"name the one to read as {role}"
        )

    for role in missing:
        known = [field for field in sample.fields if field.strip().lower() in ROLES[role].names]
        known = [field for field in known if field not in used]
        if len(known) > 1:
            raise error(role, f", and {named(known)} could each be meant")
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
        logging.warning("%s: taking %s", source, what)
    return taken


def _other_column(sample, role, used):
    """The only column, or of two the one that looks like the role's; None where it is not clear."""
    columns = [field for field in sample.fields if field.strip().lower() not in _ROW_NUMBERS]
    if len(columns) == 1 and role in ("text_field", "input_field") and columns[0] not in used:
        # A name like "text;label" is that of several columns, read with the wrong delimiter.
        return None if any(mark in columns[0] for mark in ",;\t|") else columns[0]
    fits = {"text_field": _is_text, "label_field": _is_label}.get(role)
    if len(columns) != 2 or not sample.rows or fits is None:
        return None
    found = [
        field
        for field, other in (columns, columns[::-1])
        if field not in used and fits(*([row.get(name) for row in sample.rows] for name in (field, other)))
    ]
    return found[0] if len(found) == 1 else None


def _hint(sample, role):
    """What may help to name the column of a role that was not found."""
    if any(len(field.split()) > _MOST_WORDS for field in sample.fields):
        return "; the first line of the file may not be its header"
    if role != "label_field":
        return ""
    columns = {field: [row.get(field) for row in sample.rows] for field in sample.fields}
    few = [field for field, values in columns.items() if _repeats(values)]
    return f"; few different values have {named(few)}" if few else ""


def _repeats(values):
    is_class = all(isinstance(value, str | int) and value != "" for value in values)
    return is_class and 1 < len(set(values)) <= _most_classes(values)


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
