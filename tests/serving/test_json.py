"""The JSON dialect of the REST interface: what is read, what refused and where, how numbers are written."""

import json
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from convnlp.serving.core.errors import ServingError
from convnlp.serving.rest import json_reader
from convnlp.serving.rest.json_reader import UNREAD, Object, count_nodes, read, read_quickly, read_slowly
from convnlp.serving.rest.json_writer import decimal, float32_decimal, shown, write


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


# What stands in documents, right and wrong: both readers must agree on any mixture of these.
_ESCAPES = st.sampled_from(
    [
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\ud83d\\udc80",
        "\\uD800",
        "\\udc80",
        "\\ud800\\u0041",
        "\\u0000",
        "\\\\ud800",
        "\\n",
        '\\"',
        "\\/",
        "\\q",
        "\\u12g4",
        "\\u12",
    ]
)
_CHARACTERS = st.sampled_from(["a", " ", "é", "😀", "{", ",", "\x7f", "\n", "\0", "\ufeff"])
_TEXTS = st.lists(_ESCAPES | _CHARACTERS, max_size=4).map(lambda parts: '"' + "".join(parts) + '"')
_NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(json.dumps),
    st.sampled_from(
        [str(2**63), str(2**64 - 1), str(2**64), str(-(2**63)), str(-(2**63) - 1), "1" + "0" * 30]
    )
    | st.sampled_from(["-0", "-0.0", "1e300", "1E-400", "1e400", "-1e400", "1" * 309, "9" * 309, "1" * 5000])
    | st.sampled_from(["01", "1.", "1.e5", "1e", "-", "+1", ".5", "1.5e+5", "--1", "0x10", "1_0"]),
)
_WORDS = st.sampled_from(
    [
        "true",
        "false",
        "null",
        "NaN",
        "-NaN",
        "Infinity",
        "-Infinity",
        "Inf",
        "-Inf",
        "Infi",
        "nul",
        "truei",
        "True",
    ]
)
_SPACES = st.sampled_from(["", "", "", " ", "\n", "\t\r ", "\v", "\u00a0"])
_DOCUMENTS = st.recursive(
    _TEXTS | _NUMBERS | _WORDS,
    lambda inner: st.one_of(
        st.tuples(st.lists(inner, max_size=4), _SPACES).map(lambda pair: f"[{f',{pair[1]}'.join(pair[0])}]"),
        st.tuples(st.lists(st.tuples(st.just('"a"') | _TEXTS, inner), max_size=3), _SPACES).map(
            lambda pair: "{" + ",".join(f"{key}{pair[1]}:{value}" for key, value in pair[0]) + pair[1] + "}"
        ),
        st.tuples(inner, st.sampled_from(["[1,", "]", "}", '{"a":', '{"a"', "{", ",", ':"'])).map("".join),
    ),
    max_leaves=8,
)
_RAW = st.sampled_from([b"", b"", b"", b"\xff", b"\xed\xa0\x80", b"\xc3"])
_BODIES = st.tuples(
    st.sampled_from([b"", b"", b" ", b"\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf ", b" \xef\xbb\xbf"]),
    _DOCUMENTS.map(str.encode),
    st.sampled_from([b"", b"", b" and more", b"]", b"\xff"]),
    _RAW,
    st.integers(0, 40),
).map(lambda parts: parts[0] + parts[1][: parts[4]] + parts[3] + parts[1][parts[4] :] + parts[2])


def outcome(reader, body):
    try:
        return reader(body)
    except ServingError as error:
        return error.message


def assert_same(one, other):
    """Compares two documents with the types of all values; no recursion: some are deep."""
    left, right = [one], [other]
    while left:
        one, other = left.pop(), right.pop()
        assert type(one) is type(other)
        if isinstance(one, Object):
            assert [key for key, _ in one] == [key for key, _ in other]
            one, other = [value for _, value in one], [value for _, value in other]
        if isinstance(one, list):
            assert len(one) == len(other)
            left, right = left + one, right + other
        else:
            assert repr(one) == repr(other)


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(_BODIES)
@example(b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}")
@example(b'{"a":' * 5000 + b"1" + b"}" * 5000)
@example(b'"\\udc80\xff"')
@example(b'["\\ud83d\\udc80\xff"]')
@example(b'{"a": [1, 2.5, NaN, -NaN, 18446744073709551616, 1e300], "a": [Infinity, {"\xff": "\\u00e9"}]}')
def test_both_readers_agree_on_everything(body):
    assert_same(outcome(read, body), outcome(read_slowly, body))


@pytest.mark.parametrize(
    "body",
    [
        b' {"a": [1, -2.5e3, true, false, null, "x"], "b": {"c": []}, "d": {}, "e": [[1, 2], [3.0, 4]]}',
        b'\xef\xbb\xbf\n{"a": 1, "a": [2, {"a": 3, "a": 4}]} and more',
        b'{"\xff\xc0\x80": "\xc3\xa9 \xf0\x9f\x98\x80 \x7f \\" \\\\ \\/ \\b\\f\\n\\r\\t \\u00e9"}',
        b'{"a": "\\u00e9\\ud83d\\ude00", "b": "\\\\u12", "\\u00e9": "\\u0000"}',
        b'{"a": [18446744073709551615, 18446744073709551616, -9223372036854775808, -9223372036854775809]}',
        b'{"a": [NaN, Infinity, -Infinity], "c": [-0, -0.0, 0.1, 1e300, 1E-400]}',
        b'{"a": 1' + b"0" * 300 + b', "b": [1' + b"0" * 30 + b"]}",
        b'[{"a": {"b64": "YQ=="}, "b": [{}, [], [[]], ["x", 1]]}]',
        b"[" * 200 + b"]" * 200,
        b'"text"',
    ],
)
def test_what_clients_send_is_read_by_the_json_module(body):
    document = read_quickly(body)
    assert document is not UNREAD
    assert_same(document, read_slowly(body))


@pytest.mark.parametrize("value", ["1", '"\\ud800"', "1e400", "Inf", "[" * 5000, "tru"])
def test_a_large_body_is_never_read_in_python(value, monkeypatch):
    monkeypatch.setattr(json_reader, "_begin", None)
    body = b'{"a": ["' + b"\xc3\xa9" * 2**16 + b'", ' + value.encode()
    with pytest.raises(ServingError, match=r"JSON Parse error: ") as error:
        read(body)
    assert error.value.http_status == 400
    if value == "tru":
        assert error.value.message == f"JSON Parse error: Expecting value. at offset: {len(body) - 3}"


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b'{"a": [1, 2, {"b": "[[{{::"}], "\\"[": []}', 7),
        (b"[[], [], {}]", 4),
        (b'{"a": "\\\\", "b": [1]}', 4),
        (b'["unfinished [[[', 1),
        (b'["unfinished [[[\\', 1),
        (b'"', 0),
        (b"", 0),
    ],
)
def test_nodes_are_counted_outside_strings(body, count):
    assert count_nodes(body) == count
    assert count_nodes(b'["\\\\\\"[", [{' * 1000 + body) == 3000 + count


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
        (b"[truei]", "Missing a comma or ']' after an array element. at offset: 5"),
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


def test_brackets_are_no_recursion():
    value = read(b"[" * 30_000 + b"]" * 30_000)
    assert shown(value) == "[" * 256
    depth = 0
    while value:
        value, depth = value[0], depth + 1
    assert depth == 30_000 - 1
    with pytest.raises(ServingError, match="nesting in a large body"):
        read(b"[" * 10**6 + b"]" * 10**6)


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
