"""The JSON dialect of the REST interface: what is read, what refused and where, how numbers are written."""

import json
import math

import numpy as np
import pytest

from serving.core.errors import ServingError
from serving.rest.json_reader import Object, read
from serving.rest.json_writer import decimal, float32_decimal, shown, write


def plain(value):
    """The value as the json module would give it."""
    if isinstance(value, Object):
        return {key.decode(): plain(item) for key, item in value}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, -2.5e3, true, false, null, "x"], "b": {"c": []}, "d": {}}',
        "[[1, 2], [3.0, 4]]",
        '"\\u00e9\\ud83d\\ude00 \\" \\\\ \\/ \\b\\f\\n\\r\\t é😀"',
        " [ ] ",
        "-0.0",
        '{"a":[ -1 , 2.50,3 ]}',
    ],
)
def test_reads_what_the_json_module_reads(text):
    assert repr(plain(read(text.encode()))) == repr(json.loads(text))


def test_reads_the_dialect():
    numbers = read(b"[NaN, -NaN, Infinity, -Infinity, Inf, -Inf, 18446744073709551616] and more")
    assert math.isnan(numbers[0])
    assert math.isnan(numbers[1])
    assert numbers[2:] == [math.inf, -math.inf, math.inf, -math.inf, 2.0**64]
    assert isinstance(numbers[6], float)
    assert read(b"1" + b"0" * 300) == 1e300
    assert read(b'{"a": 1, "a": 2}') == Object([(b"a", 1), (b"a", 2)])
    assert read(b'{"a": 1, "a": 2}').find(b"a") == (b"a", 1)
    assert read(b"\xef\xbb\xbf[1]") == [1]
    assert read(b'"\xff\xc0\x80"') == b"\xff\xc0\x80"


# Behind a space the json module is not asked.
@pytest.mark.parametrize(
    "body",
    [
        b'{"a": [1, -2.5e3, true, false, null, "x"], "b": {"c": []}, "d": {}, "e": [[1, 2], [3.0, 4]]}',
        b'{"a": 1, "a": [2, {"a": 3, "a": 4}]} and more',
        b'{"\xff\xc0\x80": "\xc3\xa9 \xf0\x9f\x98\x80 \x7f \\" \\\\ \\/ \\b\\f\\n\\r\\t"}',
        b'{"a": "\\u00e9\\ud83d\\ude00", "b": "\\\\u12"}',
        b'{"a": [18446744073709551615, 18446744073709551616, -9223372036854775808, -9223372036854775809]}',
        b'{"a": [NaN, Infinity, -Infinity, Inf], "b": -NaN, "c": [-0, -0.0, 0.1, 1e300, 1E-400]}',
        b'{"a": 1' + b"0" * 300 + b', "b": [1' + b"0" * 30 + b"]}",
        b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"{}",
        b'{"a": {"b64": "YQ=="}, "b": [{}, [], [[]], ["x", 1]]}',
    ],
)
def test_the_quick_reader_reads_what_the_other_one_reads(body):
    quick, other = [read(body)], [read(b" " + body)]
    while quick:  # no recursion: some of these are deep
        one, two = quick.pop(), other.pop()
        assert type(one) is type(two)
        if isinstance(one, Object):
            assert [key for key, _ in one] == [key for key, _ in two]
            one, two = [value for _, value in one], [value for _, value in two]
        if isinstance(one, list):
            assert len(one) == len(two)
            quick, other = quick + one, other + two
        else:
            assert repr(one) == repr(two)


@pytest.mark.parametrize(
    "content", [b"[1.]", b"[01]", b"[1e400]", b'"\n"', b'"\\q"', b"nul", b"[1,]", b"'a'", b'"\0"']
)
def test_the_quick_reader_leaves_errors_to_the_other_one(content):
    messages = []
    for before in (b"", b" "):
        with pytest.raises(ServingError) as error:
            read(before + b'{"a": ' + content)
        message, offset = error.value.message.rsplit(" ", 1)
        messages.append((message, int(offset) - len(before)))
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "The document is empty"),
        (b"  ", "The document is empty. at offset: 2"),
        (b"[1.0}", "Missing a comma or ']' after an array element. at offset: 4"),
        (b'{"a":1]', "Missing a comma or '}' after an object member. at offset: 6"),
        (b"{a:1}", "Missing a name for object member. at offset: 1"),
        (b'{"a" 1}', "Missing a colon after a name of object member. at offset: 5"),
        (b"[1,]", "Invalid value. at offset: 3"),
        (b"[trux]", "Invalid value. at offset: 4"),
        (b"[Nan]", "Invalid value. at offset: 3"),
        (b"[Infinite]", "Invalid value. at offset: 8"),
        (b"[-]", "Invalid value. at offset: 2"),
        (b"[1" + b"0" * 400 + b"]", "Number too big to be stored in double. at offset: 1"),
        (b"[01]", "Missing a comma or ']' after an array element. at offset: 2"),
        (b"[1.]", "Miss fraction part in number. at offset: 3"),
        (b"[1e]", "Miss exponent in number. at offset: 3"),
        (b"[1e400]", "Number too big to be stored in double. at offset: 1"),
        (b'["\xc3\xa9', "Missing a closing quotation mark in string. at offset: 4"),
        (b'["\\q"]', "Invalid escape character in string. at offset: 2"),
        (b'["\\u12g4"]', "Incorrect hex digit after \\u escape in string. at offset: 2"),
        (b'["\\ud800"]', "The surrogate pair in string is invalid. at offset: 2"),
        (b'["\n"]', "Invalid encoding in string. at offset: 2"),
    ],
)
def test_names_the_error_and_its_offset(body, message):
    with pytest.raises(ServingError) as error:
        read(body)
    assert error.value.message == f"JSON Parse error: {message}"
    assert error.value.http_status == 400


def test_a_million_brackets_are_no_recursion():
    value = read(b"[" * 10**6 + b"]" * 10**6)
    assert shown(value) == "[" * 256
    depth = 0
    while value:
        value, depth = value[0], depth + 1
    assert depth == 10**6 - 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1 / 3, "0.33333333333333331"),
        (123456789.0, "123456789.0"),
        (9e6, "9e+06"),
        (1e17, "1e+17"),
        (-0.0, "-0.0"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_doubles_are_written_as_the_real_server_writes_them(value, text):
    assert decimal(value) == text


def test_every_float32_reads_back_as_itself():
    bits = np.random.default_rng(0).integers(0, 2**32, 20_000, dtype=np.uint32)
    values = bits.view(np.float32)
    for value in values[np.isfinite(values)].tolist():
        assert np.float32(float32_decimal(value)) == np.float32(value)
    assert float32_decimal(float(np.float32(1 / 3))) == "0.333333343"


def test_indentation_and_escapes():
    value = {b"a": [1, [2, 3]], b"b": b'"\\\n\x01\xff', b"c": [], b"d": {}, b"e": [True, None]}
    lines = (
        b'{\n    "a": [1, [2, 3]],\n    "b": "\\"\\\\\\n\\u0001\xff",\n'
        b'    "c": [],\n    "d": {},\n    "e": [true, null]\n}'
    )
    assert write(value, single_line_arrays=True).encode("utf-8", "surrogateescape") == lines
    assert shown(read(lines)).encode("utf-8", "surrogateescape") == lines
    assert write([1, [b"x"]]) == '[\n    1,\n    [\n        "x"\n    ]\n]'
