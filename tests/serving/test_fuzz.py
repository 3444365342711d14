"""Malformed requests by the thousand: every one gets an answer, and no 5xx that the grammar does not know."""

import asyncio
import gc
import gzip
import json
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convnlp.serving.core.limits import Limits
from tests.serving.in_process import InProcess, request

# 501: a verb or a type that is not implemented; 503: a queue is full; 504: a request takes too long.
_ALLOWED = {200, 400, 404, 413, 429, 501, 503, 504}
_SIGNATURES = [
    "",
    "float32",
    "int8",
    "string",
    "pair",
    "two",
    "scalar",
    "classify",
    "regress",
    "none",
    "gather",
]
_NUMBERS = st.sampled_from(["0", "-1", "1.5", "1e400", "01", "1.", "-", "NaN", "Inf", "18446744073709551616"])
_STRINGS = st.sampled_from(
    ['"a"', '"\\ud800"', '"\\u0000"', '"\\q"', '"é', '{"b64": "AA=="}', '{"b64": "?"}']
)
_VALUES = st.recursive(
    _NUMBERS | _STRINGS | st.sampled_from(["true", "null", "{}", "[]", "nul", ""]),
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(st.sampled_from(["x", "a", "b", "b64", "s"]), inner, max_size=3).map(
            lambda pairs: "{" + ", ".join(f'"{key}": {value}' for key, value in pairs.items()) + "}"
        )
    ),
    max_leaves=8,
)
_KEYS = st.sampled_from(["instances", "inputs", "examples", "context", "signature_name", "other"])
_MEMBERS = st.tuples(_KEYS, _VALUES).map(lambda pair: f'"{pair[0]}": {pair[1]}')
_DOCUMENTS = st.tuples(st.sampled_from(_SIGNATURES), st.lists(_MEMBERS, max_size=3)).map(
    lambda parts: "{" + ", ".join([f'"signature_name": "{parts[0]}"', *parts[1]]) + "}"
)


@st.composite
def _damaged(draw):
    """A document with a piece cut out, doubled, or overwritten."""
    body = bytearray(draw(_DOCUMENTS).encode())
    start = draw(st.integers(0, len(body)))
    end = draw(st.integers(start, min(len(body), start + 8)))
    body[start:end] = draw(st.sampled_from([b"", body[start:end] * 2]) | st.binary(max_size=8))
    return bytes(body)


_BODIES = st.one_of(
    _DOCUMENTS.map(str.encode),
    _damaged(),
    st.binary(max_size=64),
    st.integers(1, 3000).map(lambda depth: b'{"inputs": ' + b"[" * depth + b"1" + b"]" * depth + b"}"),
)
_PATHS = st.one_of(
    st.tuples(
        st.sampled_from(["g", "affine", "none", "%67", "..%2Fg", "%", "%00"]),
        st.sampled_from(
            ["", "/versions/1", "/versions/99999999999999999999", "/labels/stable", "/labels/%ff"]
        ),
        st.sampled_from([":predict", ":classify", ":regress", "", "/metadata", ":explain", "?x"]),
    ).map(lambda parts: f"/v1/models/{''.join(parts)}"),
    st.text("/v1models:%?#.a", max_size=20).map(lambda text: f"/{text}"),
)
_VERBS = st.sampled_from(["POST"] * 8 + ["GET", "PUT", "HEAD", "OPTIONS", "TRACE", "get"])
_HEADERS = st.sampled_from(
    [[], [], [("Content-Encoding", "gzip")], [("Content-Length", "x")], [("Content-Length", "9" * 30)]]
)


@pytest.fixture(scope="module")
def models(model_folder, model_configs):
    """The application with limits that a small request can reach."""
    limits = Limits(timeout_ms=2000, body_bytes=5000, batch_size=3, text_bytes=10)
    return InProcess(model_folder, model_configs, limits=limits)


def fuzz(models, count):
    """Sends `count` requests; returns how often each status came back."""
    statuses = {}
    loop = asyncio.new_event_loop()

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(_VERBS, _PATHS, _BODIES, _HEADERS, st.booleans())
    def send(verb, path, body, headers, zipped):
        body = gzip.compress(body) if zipped and ("Content-Encoding", "gzip") in headers else body
        status, head, answer = loop.run_until_complete(request(models.app, verb, path, body, headers))
        statuses[status] = statuses.get(status, 0) + 1
        assert status in _ALLOWED, (status, answer)
        assert int(head["content-length"]) == len(answer)
        if status >= 400 and head["content-type"] == "application/json":
            assert json.loads(answer.decode("utf-8", "surrogateescape")).keys() == {"error"}

    send()
    loop.close()
    return statuses


def check(models, count):
    statuses = fuzz(models, count)
    assert statuses.keys() >= {200, 400, 404, 413, 501}  # it gets behind the first line of defence
    assert models.app._gate.inside == 0
    assert models.manager._versions._users == {}
    assert models.post("/v1/models/g:predict", b'{"instances": [1]}')[0] == 200


def test_malformed_requests_get_an_answer(models):
    check(models, 500)


@pytest.mark.slow
def test_ten_thousand_malformed_requests_leave_nothing_behind(models):
    fuzz(models, 1000)  # what is prepared once and kept
    tracemalloc.start()
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    check(models, 10_000)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # A kilobyte lost a request would be 10 MB; hypothesis keeps some of what it has seen.
    assert after - before < 5e6
