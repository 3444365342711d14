"""Reads the JSON dialect of TF Serving's REST interface.

This is JSON as TF Serving's RapidJSON reads it: NaN, Infinity and Inf are numbers, anything after the
document is ignored, a repeated key keeps its first value, and bytes that are not UTF-8 pass through. Strings
are therefore `bytes` here.

The json module reads almost all valid documents, many times faster than Python code could. A reader in Python
handles the rest, and reports errors with their offsets in RapidJSON's words.
"""

import json
import math
import re

import numpy as np

from convnlp.serving.core.errors import invalid_argument

_SPACE = re.compile(rb"[ \t\n\r]*")
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]*)?")
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_WORDS = {
    b"true": True,
    b"false": False,
    b"null": None,
    b"NaN": math.nan,
    b"-NaN": math.nan,
    b"Infinity": math.inf,
    b"-Infinity": -math.inf,
    b"Inf": math.inf,
    b"-Inf": -math.inf,
}
_WORD = re.compile(rb"true|false|null|-?(?:NaN|Infinity|Inf(?!i))")
_ESCAPES = {
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b'"': b'"',
    b"\\": b"\\",
    b"/": b"/",
}
_HEX = re.compile(rb"[0-9a-fA-F]{4}")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_START = re.compile("\ufeff?[ \t\n\r]*")
# A lone surrogate may come from one of these, or from a byte that is not UTF-8.
_LOW_SURROGATE = re.compile(rb"\\u[dD][c-fC-F]")
# The reader in Python takes about a microsecond per byte, so it does not read larger bodies.
_SLOWLY_READ_BYTES = 2**16


class Object(list):
    """A JSON object as its (key, value) pairs in the order read, repeated keys included."""

    __slots__ = ()

    def find(self, key):
        """Returns the first pair with this key, or None."""
        return next((pair for pair in self if pair[0] == key), None)


def is_array(value):
    """Whether a value is an array, and not an `Object`, which is a list too."""
    return isinstance(value, list) and not isinstance(value, Object)


class _Word(float):
    """NaN or an infinity written as a word, as opposed to a number too large for a double."""

    __slots__ = ()


_DECODER = json.JSONDecoder(object_pairs_hook=Object, parse_constant=_Word)
_NUMBERS = {int, float}
UNREAD = object()
_MODULE_ERRORS = (ValueError, OverflowError, RecursionError)


def read(body):
    """Reads one document.

    Args:
        body: bytes. The request's body.

    Returns:
        The document as `Object`, list, bytes, int, float, bool or None.

    Raises:
        ServingError: if the body does not begin with a document; the message has RapidJSON's words and
            offset.
    """
    document = read_quickly(body)
    return read_slowly(body) if document is UNREAD else document


def read_quickly(body):
    """Reads one document with the json module, if that is possible.

    Args:
        body: bytes. The request's body.

    Returns:
        The document, or `UNREAD` if it has an error or something that the module does not know; `read_slowly`
        handles these.
    """
    try:
        encoding_errors = "strict"
        try:
            text = body.decode()
        except UnicodeDecodeError:
            if _LOW_SURROGATE.search(body):
                return UNREAD
            encoding_errors = "surrogateescape"
            text = body.decode("utf-8", encoding_errors)
        document, _ = _DECODER.raw_decode(text, _START.match(text).end())
        if type(document) in _NUMBERS:  # there may be more: of `1.x` the module takes only the 1
            return UNREAD
        return _with_bytes(document, encoding_errors)
    except _MODULE_ERRORS:
        return UNREAD


def _with_bytes(value, errors):
    """Turns strings back into bytes, integers beyond 64 bits into doubles, and words into plain numbers.

    Raises:
        ValueError: if a string has a lone surrogate, or a number is too large for a double.
        OverflowError: if an integer is too large for a double.
    """
    kind = type(value)
    if kind is str:
        return value.encode("utf-8", errors)
    if kind is Object:
        return Object([(key.encode("utf-8", errors), _with_bytes(item, errors)) for key, item in value])
    if kind is list:
        kinds = set(map(type, value))
        if kinds == {str}:
            return [item.encode("utf-8", errors) for item in value]
        if kinds and kinds <= _NUMBERS and min(value) >= -(2**63) and max(value) < 2**64:
            return value
        return [_with_bytes(item, errors) for item in value]
    if kind is int:
        return value if -(2**63) <= value < 2**64 else float(value)
    if kind is float and math.isinf(value):
        raise ValueError("a number that is too large")
    return float(value) if kind is _Word else value


def count_nodes(body):
    """Counts the arrays, objects and members of a document, for a fraction of the cost of reading it.

    Args:
        body: bytes. The request's body.

    Returns:
        int. The number of arrays, objects and members of objects; an arbitrary number if the body is not
        JSON.
    """
    without_escapes = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = np.frombuffer(without_escapes, np.uint8)
    # Outside strings: after an even number of quotation marks.
    is_outside = np.cumsum(marks == ord('"'), dtype=np.uint8) & 1 == 0
    return sum(int(np.count_nonzero((marks == ord(mark)) & is_outside)) for mark in "[{:")


def read_slowly(body):
    """Reads one document in Python; see `read`. It has its own stack, so the depth is not limited."""
    if not body:
        raise invalid_argument("JSON Parse error: The document is empty")
    if len(body) > _SLOWLY_READ_BYTES:
        raise _error_of_large_body(body)
    at = _skip_space(body, len(_BYTE_ORDER_MARK) if body.startswith(_BYTE_ORDER_MARK) else 0)
    if at == len(body):
        raise _error("The document is empty.", at)
    open_containers, keys = [], []
    while True:
        value, at, is_open = _begin(body, at)
        if is_open:
            open_containers.append(value)
            if isinstance(value, Object):
                at = _key(body, at, keys)
            continue
        while open_containers:  # a complete value goes into its container, which it may complete
            container = open_containers[-1]
            is_object = isinstance(container, Object)
            container.append((keys.pop(), value) if is_object else value)
            at = _skip_space(body, at)
            mark = body[at : at + 1]
            if mark == b",":
                at = _key(body, _skip_space(body, at + 1), keys) if is_object else _skip_space(body, at + 1)
                break
            if mark != (b"}" if is_object else b"]"):
                after = "'}' after an object member." if is_object else "']' after an array element."
                raise _error(f"Missing a comma or {after}", at)
            at += 1
            value = open_containers.pop()
        else:
            return value


def _begin(body, at):
    """Reads a scalar or an empty container, or the opening bracket of another container.

    Returns:
        The value, the offset after it, and whether it is a container whose content follows.
    """
    first = body[at : at + 1]
    if first == b'"':
        return *_string(body, at), False
    if first in (b"{", b"["):
        value, closing = (Object(), b"}") if first == b"{" else ([], b"]")
        inside = _skip_space(body, at + 1)
        if body[inside : inside + 1] == closing:
            return value, inside + 1, False
        return value, inside, True
    if word := _WORD.match(body, at):
        return _WORDS[word.group()], word.end(), False
    return *_number(body, at), False


def _error_of_large_body(body):
    """Returns the error of a body that Python would read too slowly, in the words of the json module."""
    text = body.decode("utf-8", "replace")
    try:
        _DECODER.raw_decode(text, _START.match(text).end())
    except json.JSONDecodeError as error:
        return _error(f"{error.msg}.", len(error.doc[: error.pos].encode()))
    except _MODULE_ERRORS:
        pass
    return invalid_argument("JSON Parse error: Invalid number, string or nesting in a large body")


def _number(body, at):
    match = _NUMBER.match(body, at)
    if not match:
        raise _error("Invalid value.", at + max(_common_prefix(body, at, word) for word in _WORDS))
    fraction, exponent = match.groups()
    if fraction == b".":
        raise _error("Miss fraction part in number.", match.end(1))
    if exponent is not None and not exponent[-1:].isdigit():
        raise _error("Miss exponent in number.", match.end())
    # An integer beyond 64 bits is a double, as in RapidJSON.
    if fraction is None and exponent is None and match.end() - at <= 20:
        value = int(match.group())
        if -(2**63) <= value < 2**64:
            return value, match.end()
    value = float(match.group())
    if math.isinf(value):
        raise _error("Number too big to be stored in double.", at)
    return value, match.end()


def _common_prefix(body, at, word):
    """Returns how many bytes of the word are at `at`; RapidJSON reports the first byte that differs."""
    length = 0
    while length < len(word) and body[at + length : at + length + 1] == word[length : length + 1]:
        length += 1
    return length


def _key(body, at, keys):
    """Reads `"key":`, appends the key to `keys`, and returns the offset of its value."""
    if body[at : at + 1] != b'"':
        raise _error("Missing a name for object member.", at)
    key, at = _string(body, at)
    at = _skip_space(body, at)
    if body[at : at + 1] != b":":
        raise _error("Missing a colon after a name of object member.", at)
    keys.append(key)
    return _skip_space(body, at + 1)


def _string(body, at):
    """Reads the string whose opening quotation mark is at `at`."""
    pieces = []
    at += 1
    while True:
        plain = _PLAIN.match(body, at)
        pieces.append(plain.group())
        at = plain.end()
        mark = body[at : at + 1]
        if mark == b'"':
            return b"".join(pieces), at + 1
        if mark == b"\\":
            piece, at = _escape(body, at)
            pieces.append(piece)
        elif mark in (b"", b"\0"):
            raise _error("Missing a closing quotation mark in string.", at)
        else:
            raise _error("Invalid encoding in string.", at)


def _escape(body, at):
    """Reads the escape sequence at `at`; a surrogate pair is one character."""
    letter = body[at + 1 : at + 2]
    if letter in _ESCAPES:
        return _ESCAPES[letter], at + 2
    if letter != b"u":
        raise _error("Invalid escape character in string.", at)
    code = _code_unit(body, at)
    if 0xD800 <= code <= 0xDFFF:
        low = _code_unit(body, at + 6) if body[at + 6 : at + 8] == b"\\u" else 0
        if code >= 0xDC00 or not 0xDC00 <= low <= 0xDFFF:
            raise _error("The surrogate pair in string is invalid.", at)
        return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)).encode(), at + 12
    return chr(code).encode(), at + 6


def _code_unit(body, at):
    digits = _HEX.match(body, at + 2)
    if not digits:
        raise _error("Incorrect hex digit after \\u escape in string.", at)
    return int(digits.group(), 16)


def _skip_space(body, at):
    return _SPACE.match(body, at).end()


def _error(message, at):
    return invalid_argument(f"JSON Parse error: {message} at offset: {at}")
