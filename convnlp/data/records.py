"""Records: one line of JSON or one document of text each, as a dict of fields."""

import collections
import json

from convnlp.data.rules import short

_NAMED_FIELDS = 10  # fields listed in an error
_ARRAY = "; for an array of objects, write one object per line: jq -c .[] OLD.json > NEW.jsonl"


def value_of(field, record):
    """Returns the value of a record's field; raises ValueError, listing the fields, if it is missing."""
    if field not in record:
        raise ValueError(f"no field {field!r} (available: {named(record)})")
    return record[field]


def named(fields):
    """Returns the names of at most ten fields, as an error lists them."""
    there = [*map(short, list(fields)[:_NAMED_FIELDS]), *["..."][: len(fields) > _NAMED_FIELDS]]
    return ", ".join(there) or "none"


def parse_json(data):
    """Parses a line of a JSON-lines file into a dict; raises ValueError with a short reason."""
    try:
        record = json.loads(data.decode("utf-8"), object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 (byte {error.start + 1} of the line)") from error
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error}){_advice(data.strip())}") from error
    if not isinstance(record, dict):
        array = _ARRAY if isinstance(record, list) else ""
        raise ValueError(f"not a JSON object: {short(record)}{array}")
    return record


def _advice(line):
    """Returns how to turn what may stand in a line instead of an object into one."""
    if line.startswith(b"["):
        return _ARRAY
    if line == b"{":
        return "; write each object on a line of its own: jq -c . OLD.json > NEW.jsonl"
    if line.startswith(b"{'"):
        return "; JSON has double quotes, as json.dumps writes them"
    return "; remove the comma behind the object" if line.endswith(b"},") else ""


def _object(pairs):
    """Builds a JSON object, refusing a field that appears twice: the parser would silently keep one value."""
    record = dict(pairs)
    if len(record) < len(pairs):
        ((name, _),) = collections.Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"field {short(name)} appears twice")
    return record


def parse_text(data):
    """Turns a document of a text file into a record; raises ValueError with a short reason."""
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 (byte {error.start + 1} of the document)") from error
