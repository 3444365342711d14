"""The server as a process: answers over real HTTP, versions that come and go, and what stops it."""

import gzip
import http.client
import json
import shutil
import signal
import socket
import time

import pytest

from serving.client import RequestError
from tests.serving import server_process
from tests.serving.small_models import free_port, save_affine

pytestmark = [pytest.mark.serving, pytest.mark.multiprocess]


@pytest.fixture(scope="module")
def base_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "affine"
    save_affine(path / "1", 1)
    save_affine(path / "2", 2)
    return path


@pytest.fixture(scope="module")
def client(base_path, tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    config = folder / "models.config"
    versions = 'model_version_policy { all {} } version_labels { key: "stable" value: 1 }'
    config.write_text(
        f'model_config_list {{ config {{ name: "affine" base_path: "{base_path}" model_platform: "tensorflow"'
        f" {versions} }} }}"
    )
    flags = [
        f"--model_config_file={config}",
        "--rest_api_timeout_in_ms=2000",
        "--rest_api_enable_cors_support",
    ]
    with server_process.running(folder / "log", "affine", *flags) as client:
        yield client


def ask(client, method, path, body=b"", headers=None):
    """Returns status, headers and body of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    answer = response.status, response.headers, response.read()
    connection.close()
    return answer


def test_the_newest_version_answers_unless_another_is_asked_for(client):
    assert client.predict("affine", [1.0, 2.0]) == [2.5, 3.0]
    assert client.predict("affine", [1.0], version=1) == [1.5]
    assert client.predict("affine", [1.0], label="stable") == [1.5]


def test_rows_and_columns(client):
    status, headers, body = ask(client, "POST", "/v1/models/affine:predict", b'{"instances": [[1.0], [NaN]]}')
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert body == b'{\n    "predictions": [[2.5], [NaN]\n    ]\n}'
    _, _, body = ask(client, "POST", "/v1/models/affine:predict", b'{"inputs": {"x": [1, 2]}}')
    assert json.loads(body) == {"outputs": [2.5, 3.0]}


def test_several_inputs_and_bytes(client):
    rows = [{"text": "é", "count": 2}, {"text": b"\xff\x00", "count": 1}]
    answer = client.predict("affine", rows, signature_name="repeat")
    assert answer == [{"length": 4, "raw_bytes": "é".encode()}, {"length": 2, "raw_bytes": b"\xff\x00"}]


def test_status_and_metadata(client):
    assert [(state["version"], state["state"]) for state in client.status("affine")] == [
        ("2", "AVAILABLE"),
        ("1", "AVAILABLE"),
    ]
    signatures = client.metadata("affine", version=1)
    assert signatures["serving_default"]["inputs"]["x"]["dtype"] == "DT_FLOAT"
    assert signatures["repeat"]["outputs"].keys() == {"length", "raw_bytes"}


PREDICT = "/v1/models/affine:predict"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", PREDICT, b"", 400, "JSON Parse error: The document is empty"),
        ("POST", PREDICT, b'{"instances": []}', 400, "No values in 'instances' array"),
        ("POST", PREDICT, b'{"instances": ["a"]}', 400, "is not of expected type: float"),
        ("POST", PREDICT, b"[" * 20_000, 400, "JSON Parse error: Invalid value."),
        ("PUT", PREDICT, b"{}", 400, f"Malformed request: PUT {PREDICT}"),
        (
            "POST",
            "/v1/models/none:predict",
            b'{"inputs": 1}',
            404,
            "Servable not found for request: Latest(none)",
        ),
        ("POST", "/v1/models/affine/versions/7:predict", b'{"inputs": 1}', 404, "Specific(affine, 7)"),
        ("POST", f"/v1/models/affine/versions/{2**63}:predict", b"{}", 400, "Failed to convert version"),
        ("GET", "/v1/models/none", b"", 404, "Could not find any versions of model none"),
        ("GET", "/v1/models", b"", 400, "Missing model name in request."),
    ],
)
def test_errors_say_what_is_wrong(client, method, path, body, status, message):
    got, _, answer = ask(client, method, path, body)
    assert got == status
    assert message in json.loads(answer)["error"]


def test_a_request_that_takes_too_long_is_given_up(client):
    with pytest.raises(RequestError, match="Timed out") as error:
        client.predict("affine", [1.0], signature_name="slow")
    assert error.value.status == 504


def test_http_around_it(client):
    body = gzip.compress(b'{"instances": [1]}')
    status, headers, _ = ask(client, "POST", PREDICT, body, {"Content-Encoding": "gzip"})
    assert status == 200
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert ask(client, "POST", PREDICT, body[:-4], {"Content-Encoding": "gzip"})[0] == 400
    assert ask(client, "OPTIONS", PREDICT, b"", {"Origin": "http://a.example"})[0] == 200
    assert ask(client, "GET", "/favicon.ico")[0] == 404


def test_versions_come_and_go(tmp_path):
    base_path = tmp_path / "affine"
    save_affine(base_path / "1", 1)
    flags = ["--model_name=affine", f"--model_base_path={base_path}", "--file_system_poll_wait_seconds=1"]
    with server_process.running(tmp_path / "log", "affine", *flags) as client:
        assert client.predict("affine", [0.0]) == [1.0]

        (base_path / "2").mkdir()  # a version without a model does not displace the one that works
        wait_for(lambda: client.status("affine")[0]["state"] == "LOADING")
        assert client.predict("affine", [0.0]) == [1.0]

        save_affine(tmp_path / "new", 3)
        shutil.move(tmp_path / "new", base_path / "3")
        wait_for(lambda: client.predict("affine", [0.0]) == [3.0])
        assert {state["version"]: state["state"] for state in client.status("affine")}["1"] == "END"

        for version in (base_path / "2", base_path / "3"):
            shutil.rmtree(version)
        shutil.rmtree(base_path / "1")
        time.sleep(2.5)  # two polls of an empty directory, after which the last version must still serve
        assert client.predict("affine", [0.0]) == [3.0]


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the server did not notice the change"
        time.sleep(0.2)


def test_sigterm_ends_it_with_success(base_path, tmp_path):
    flags = ["--model_name=affine", f"--model_base_path={base_path}"]
    with server_process.running(tmp_path / "log", "affine", *flags) as client:
        client.process.send_signal(signal.SIGTERM)
        assert client.process.wait(180) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


def one_line_error(*flags):
    """Runs the server with flags that cannot work, and returns the line it ends with."""
    process = server_process.start(*flags)
    _, errors = process.communicate(timeout=400)
    lines = [line for line in errors.splitlines() if line.startswith("error: ")]
    assert process.returncode == 1, errors
    assert len(lines) == 1, errors
    assert "Traceback" not in errors
    return lines[0]


def test_a_port_in_use_is_one_clear_line(base_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        line = one_line_error(f"--rest_api_port={port}", f"--model_base_path={base_path}")
    assert line == f"error: cannot listen on 127.0.0.1 port {port} (--rest_api_port): address already in use"


def test_what_cannot_be_served_is_one_clear_line(tmp_path):
    port = f"--rest_api_port={free_port()}"
    assert "there is no version directory" in one_line_error(port, f"--model_base_path={tmp_path}")
    (tmp_path / "1").mkdir()
    assert f"{tmp_path}/1 does not load" in one_line_error(port, f"--model_base_path={tmp_path}")


def test_a_flag_that_is_not_implemented_does_not_exist():
    process = server_process.start("--rest_api_port=1", "--enable_batching")
    _, errors = process.communicate(timeout=400)
    assert process.returncode != 0
    assert "Unknown command line flag 'enable_batching'" in errors
