"""The recorded answers of the real TF Serving: ours are the same, but for the differences listed here."""

import base64
import http.client
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving import server_process

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "rest"
pytestmark = [
    pytest.mark.serving,
    pytest.mark.multiprocess,
    pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded answers are not beside this checkout"),
]

# Where the answers differ, and why ours is the better one, or why it does not matter.
DIFFERENCES = {
    "echo_int8_[200]": "out of the type's range: an error here, a wrapped number there",
    "echo_int16_[40000]": "as above",
    "echo_uint8_[256]": "as above",
    "echo_uint8_[-1]": "as above",
    "dup_key_shift2": "a key given twice shifts all later rows there; here the first value counts",
    "head_status": "a HEAD request is answered with a body there, which HTTP forbids",
    "deep_nesting": "more dimensions than NumPy has, 64: refused in other words",
    "deep_nesting_num": "as above",
    "no_host": "HTTP/1.1 demands a Host header; it is refused here",
}
METHODS_TO_COME = ("classify", "regress")


def cases():
    """The recorded cases of the methods that the server has."""
    with open(RECORDED / "golden.jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [row for row in rows if not row["name"].startswith(METHODS_TO_COME)]


@pytest.fixture(scope="module")
def clients(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    subprocess.run([sys.executable, RECORDED / "models.py", folder], check=True, capture_output=True)
    flags = [f"--model_config_file={folder}/models.config", "--allow_version_labels_for_unavailable_models"]
    cors = [*flags, "--rest_api_enable_cors_support"]
    with (
        server_process.running(folder / "log", "misc", *flags) as default,
        server_process.running(folder / "cors.log", "misc", *cors) as with_cors,
    ):
        yield {"default": default, "cors": with_cors}


def content(body):
    return (
        body["text"].encode("utf-8", "surrogateescape")
        if "text" in body
        else base64.b64decode(body["base64"])
    )


def on_the_wire(request):
    """The bytes of a recorded request."""
    if "raw" in request:
        return content(request["raw"])
    body = content(request["body"]) if request["body"] else b""
    headers = [("Host", "127.0.0.1"), *request["headers"], ("Content-Length", str(len(body)))]
    head = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"{request['method']} {request['path']} HTTP/1.1\r\n{head}\r\n".encode() + body


def ask(port, request):
    """Sends a recorded request and returns status and body of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(on_the_wire(request))
        response = http.client.HTTPResponse(connection, method=request.get("method"))
        response.begin()
        return response.status, response.read()


def equal(a, b):
    """Whether two documents are equal, where NaN equals NaN, and true is not 1."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and (a == b or (a != a and b != b))


def agrees(recorded, status, body):
    """Whether an answer is the recorded one: the status, and the document of a success or an error."""
    if int(recorded["status_line"].split()[1]) != status:
        return False
    expected = content(recorded["body"])
    if not expected.startswith(b"{"):  # the HTML of errors below the REST interface
        return True
    try:
        documents = [json.loads(text.decode("utf-8", "surrogateescape")) for text in (expected, body)]
    except ValueError:
        return False
    return equal(*documents)


def test_answers_are_those_of_the_real_server(clients):
    rows = cases()
    assert len(rows) == 209
    differ = set()
    for row in rows:
        status, body = ask(clients[row["server"]].port, row["request"])
        if not agrees(row["response"], status, body):
            differ.add(row["name"])
    assert differ == set(DIFFERENCES)


def test_numbers_are_printed_alike(clients):
    compared = 0
    for row in cases():
        expected = content(row["response"]["body"])
        # With several outputs the order of the keys is the real server's own; the values are compared above.
        one_output = b'"predictions": [' in expected and expected.count(b'": ') == 1
        if row["stable_bytes"] and one_output and row["name"] not in DIFFERENCES:
            _, body = ask(clients[row["server"]].port, row["request"])
            assert body == expected, row["name"]
            compared += 1
    assert compared > 50
