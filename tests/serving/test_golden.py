"""The recorded answers of the real TF Serving: ours are the same."""

import base64
import http.client
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from convnlp.serving.core.config_files import read_model_configs
from convnlp.serving.core.loader import Loader
from convnlp.serving.core.metrics import Metrics
from convnlp.serving.core.models import ModelManager
from convnlp.serving.core.runner import Runner
from convnlp.serving.page.site import page_routes
from convnlp.serving.rest.interface import RestApp
from convnlp.serving.rest.site import build_site
from tests.serving import server_thread

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "rest"
pytestmark = [
    pytest.mark.serving,
    pytest.mark.multiprocess,
    pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded answers are not beside this checkout"),
]


def cases():
    """The recorded cases."""
    with open(RECORDED / "golden.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="module")
def ports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    subprocess.run([sys.executable, RECORDED / "models.py", folder], check=True, capture_output=True)
    metrics = Metrics()
    manager = ModelManager(read_model_configs(f"{folder}/models.config"), Loader(metrics), any_labels=True)
    manager.load()
    runner, site = Runner(2, 8), build_site(metrics, routes=page_routes(manager.names))
    default = RestApp(manager, runner, metrics, site=site)
    cors = RestApp(manager, runner, metrics, cors=True, site=site)
    with server_thread.serving(default) as port, server_thread.serving(cors) as cors_port:
        yield {"default": port, "cors": cors_port}
    runner.close()


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
        interim = connection.recv(12, socket.MSG_PEEK)
        assert not interim.endswith(b" 100")  # which the parser below would pass over
        response = http.client.HTTPResponse(connection)  # of no method: HEAD has a body, too
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


def test_answers_are_those_of_the_real_server(ports):
    rows = cases()
    assert len(rows) == 233
    differ = {}
    for row in rows:
        status, body = ask(ports[row["server"]], row["request"])
        if not agrees(row["response"], status, body):
            differ[row["name"]] = status, body
    assert differ == {}


def test_numbers_are_printed_alike(ports):
    compared = 0
    for row in cases():
        expected = content(row["response"]["body"])
        # With several outputs the order of the keys is the real server's own; the values are compared above.
        one_output = b'"predictions": [' in expected and expected.count(b'": ') == 1
        if row["stable_bytes"] and one_output:
            _, body = ask(ports[row["server"]], row["request"])
            assert body == expected, row["name"]
            compared += 1
    assert compared > 50
