"""Writes JSON as TF Serving's REST interface does, with its format of numbers, NaN, Infinity and indentation.

A value is a dict, a list, bytes (a string), int, float, bool, None, or str (JSON that is already written).
"""

import math
import re
import struct
from decimal import Decimal

from convnlp.serving.rest.json_reader import Object

# How many bytes of a value TF Serving shows in an error message; the piece at the limit is shown whole.
_SHOWN_BYTES = 256
_SPECIAL = re.compile(rb'["\\\x00-\x1f]')
_SHORT = {
    b'"': b'\\"',
    b"\\": b"\\\\",
    b"\b": b"\\b",
    b"\f": b"\\f",
    b"\n": b"\\n",
    b"\r": b"\\r",
    b"\t": b"\\t",
}
_FLOAT = struct.Struct("f")


def write(value, level=0, single_line_arrays=False):
    """Writes a value.

    Args:
        value: The value, see above.
        level: int. Its depth in the document.
        single_line_arrays: bool. Whether arrays are written `[1, 2]` rather than with one element per line.

    Returns:
        str. Bytes of a string that are not UTF-8 become surrogates ("surrogateescape").
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return quote(value)
    if isinstance(value, dict):
        items = [f"{quote(key)}: {write(item, level + 1, single_line_arrays)}" for key, item in value.items()]
        return bracket(items, "{}", level, False)
    if isinstance(value, list):
        items = [write(item, level + 1, single_line_arrays) for item in value]
        return bracket(items, "[]", level, single_line_arrays)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value) if isinstance(value, int) else decimal(value)


def bracket(items, brackets, level, single_line):
    """Joins items that are already written into an array or object at this level."""
    opening, closing = brackets
    if not items:
        return brackets
    if single_line:
        return opening + ", ".join(items) + closing
    line = "\n" + "    " * (level + 1)
    return opening + line + f",{line}".join(items) + "\n" + "    " * level + closing


def quote(text):
    """Writes bytes or str as a JSON string, escaping only quotation marks, backslashes and controls."""
    text = text.encode() if isinstance(text, str) else text
    if not _SPECIAL.search(text):
        return f'"{text.decode("utf-8", "surrogateescape")}"'
    escaped = _SPECIAL.sub(lambda match: _SHORT.get(match.group(), b"\\u%04X" % match.group()[0]), text)
    return f'"{escaped.decode("utf-8", "surrogateescape")}"'


def decimal(value):
    """Writes a double with 6 digits if they restore it exactly, else with 17; ".0" marks a whole number."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    text = f"{value:.6g}"
    if float(text) != value:
        text = f"{value:.17g}"
    return text if "." in text or "e" in text else text + ".0"


def float32_decimal(value):
    """Writes a float32 with 6 digits if they restore it exactly, else with 9."""
    if not math.isfinite(value):
        return decimal(value)
    text = f"{value:.6g}"
    if _FLOAT.unpack(_FLOAT.pack(float(text)))[0] != value:
        text = f"{value:.9g}"
    return text if "." in text or "e" in text else text + ".0"


def shown(value):
    """Writes a value as an error message shows it: cut after 256 bytes.

    Args:
        value: A value from `json_reader.read`.

    Returns:
        str. It breaks off in the middle of the document after the limit, or at a NaN or infinity, which the
        real server's writer refuses.
    """
    pieces, size = [], 0
    for piece in _tokens(value):
        pieces.append(piece)
        size += len(piece.encode("utf-8", "surrogateescape"))
        if size >= _SHOWN_BYTES:
            break
    return "".join(pieces)


def _tokens(value):
    """Yields the document in pieces; each includes the comma, line break and indentation before it."""
    open_containers = []
    before = ""
    while True:
        if isinstance(value, list):
            is_object = isinstance(value, Object)
            yield before + ("{" if is_object else "[")
            open_containers.append((iter(value), is_object, len(value)))
        elif isinstance(value, float) and not math.isfinite(value):
            yield before
            return
        else:
            yield before + (_shortest(value) if isinstance(value, float) else write(value))
        while open_containers:
            items, is_object, count = open_containers[-1]
            remaining = items.__length_hint__()
            if remaining:
                before = "," if remaining < count else ""
                break
            open_containers.pop()
            line = "\n" + "    " * len(open_containers) if is_object and count else ""
            yield line + ("}" if is_object else "]")
        else:
            return
        value = next(items)
        if is_object:
            key, value = value
            yield f"{before}\n{'    ' * len(open_containers)}{quote(key)}"
            before = ": "
        elif before:
            before = ", "


def _shortest(value):
    """Writes a double with the fewest digits that restore it exactly, in RapidJSON's format."""
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    digits, minus = "".join(map(str, digits)), "-" * sign
    point = len(digits) + exponent
    if value == 0:
        return f"{minus}0.0"
    if exponent >= 0 and point <= 21:
        return f"{minus}{digits}{'0' * exponent}.0"
    if 0 < point <= 21:
        return f"{minus}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{minus}{digits[0]}{fraction}e{point - 1}"
