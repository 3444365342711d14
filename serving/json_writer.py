"""Writes JSON as TF Serving's REST interface does: its numbers, its NaN and Infinity, its indentation.

A value is a dict or `Object`, a list, bytes (a string), int, float, bool, None, or str: JSON text already
written.
"""

import re

import numpy as np

from serving.json_reader import Object

# Deeper levels of a value are shown as "..." in error messages; no tensor has as many.
_MAX_DEPTH = 100
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


def write(value, level=0, single_line_arrays=False):
    """Writes a value.

    Args:
        value: The value, see above.
        level: int. How deep it stands in the document.
        single_line_arrays: bool. Whether arrays are written `[1, 2]` rather than one element a line.

    Returns:
        str. Bytes of a string that are no UTF-8 stand in it as surrogates ("surrogateescape").
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return quote(value)
    if isinstance(value, dict | list):
        if level > _MAX_DEPTH:
            return "..."
        is_object = isinstance(value, dict | Object)
        if is_object:
            pairs = value.items() if isinstance(value, dict) else value
            items = [f"{quote(key)}: {write(item, level + 1, single_line_arrays)}" for key, item in pairs]
        else:
            items = [write(item, level + 1, single_line_arrays) for item in value]
        return bracket(items, "{}" if is_object else "[]", level, single_line_arrays and not is_object)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value) if isinstance(value, int) else decimal(value)


def bracket(items, brackets, level, single_line):
    """Joins written items into an array or object at this level."""
    opening, closing = brackets
    if not items:
        return brackets
    if single_line:
        return opening + ", ".join(items) + closing
    line = "\n" + "    " * (level + 1)
    return opening + line + f",{line}".join(items) + "\n" + "    " * level + closing


def quote(text):
    """Writes bytes (or str) as a JSON string: only quotation marks, backslashes and controls are escaped."""
    text = text.encode() if isinstance(text, str) else text
    escaped = _SPECIAL.sub(lambda match: _SHORT.get(match.group(), b"\\u%04X" % match.group()[0]), text)
    return f'"{escaped.decode("utf-8", "surrogateescape")}"'


def decimal(value, dtype=np.float64, digits=17):
    """Writes a float in 6 digits where they give it back, else in as many as its type needs.

    Args:
        value: float.
        dtype: type. The NumPy type that must read the same number back: float64 or float32.
        digits: int. The digits that always suffice for that type: 17, or 9 for float32.

    Returns:
        str. With ".0" if it would else look like an integer.
    """
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    text = f"{value:.6g}"
    if dtype(text) != dtype(value):
        text = f"{value:.{digits}g}"
    return text if "." in text or "e" in text else text + ".0"


def float32_decimal(value):
    """Writes the value of a float32."""
    return decimal(value, np.float32, 9)
