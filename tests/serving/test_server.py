"""The server as a process: its flags, versions that come and go under load, and what stops it."""

import collections
import dataclasses
import functools
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc

from convnlp.serving.client import RequestError
from convnlp.serving.core.cores import num_cores
from convnlp.serving.core.limits import Limits
from tests.run_program import run_program
from tests.serving import server_process
from tests.serving.small_models import free_port, save_affine

pytestmark = [pytest.mark.serving, pytest.mark.multiprocess]


@pytest.fixture(scope="module")
def base_path(model_folder):
    return model_folder / "affine"


def ask(client, method, path, body=b"", headers=None):
    """Returns status, headers and body of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    answer = response.status, response.headers, response.read()
    connection.close()
    return answer


# The head of a request whose body does not come.
STUCK = b"POST /v1/models/affine:predict HTTP/1.1\r\nContent-Length: 100\r\n\r\n"


def metric(client, line):
    """The number in the line of the metrics that begins so; 0 if there is none."""
    _, _, page = ask(client, "GET", "/metrics")
    return sum(int(row.split()[-1]) for row in page.decode().splitlines() if row.startswith(line))


def label_error(client, label):
    """What the server says to a request for a label of no loaded version."""
    with pytest.raises(RequestError) as error:
        client.predict("affine", [1.0], label=label)
    return str(error.value)


def test_every_flag_reaches_its_part(base_path, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "models.config").write_text(
        f'model_config_list {{ config {{ name: "affine" base_path: "{base_path}" model_platform: "tensorflow"'
        ' model_version_policy { all {} } version_labels { key: "stable" value: 1 }'
        ' version_labels { key: "next" value: 9 } } }'
    )
    (tmp_path / "batching.config").write_text("max_batch_size { value: 4 }")
    (tmp_path / "monitoring.config").write_text('prometheus_config { enable: true path: "/metrics" }')
    grpc_port = free_port()
    flags = [
        "--model_config_file=~/models.config",
        "--model_config_file_poll_wait_seconds=1",
        "--allow_version_labels_for_unavailable_models",
        "--enable_batching",
        "--batching_parameters_file=~/batching.config",
        "--monitoring_config_file=~/monitoring.config",
        f"--port={grpc_port}",
        "--rest_api_timeout_in_ms=2000",
        "--rest_api_enable_cors_support",
        "--max_text_bytes=3",
        "--max_body_bytes=200",
        "--nopage",
        "--allowed_hosts=good.example,.better.example",
        "--rest_api_idle_timeout_in_ms=500",
        "--rest_api_read_timeout_in_ms=500",
        "--rest_api_write_timeout_in_ms=500",
        "--drain_timeout_in_ms=1000",
    ]
    with server_process.running(tmp_path / "log", "affine", *flags) as client:
        assert client.predict("affine", [1.0, 2.0]) == [2.5, 3.0]
        assert client.predict("affine", [1.0], version=1) == client.predict("affine", [1.0], label="stable")
        rows = [{"text": "é", "count": 2}, {"text": b"\xff\x00", "count": 1}]
        answer = client.predict("affine", rows, signature_name="repeat")
        assert answer == [{"length": 4, "raw_bytes": "é".encode()}, {"length": 2, "raw_bytes": b"\xff\x00"}]
        for status, message, instances, signature in [
            (400, "Task size 5 is larger than maximum input batch size 4", [1.0] * 5, None),
            (413, "Text of 4 bytes is longer than 3", [{"text": "four", "count": 1}], "repeat"),
            (413, "larger than 200 bytes", [0.125] * 80, None),
            (504, "Timed out waiting for notification", [1.0], "slow"),
        ]:
            with pytest.raises(RequestError, match=message) as error:
                client.predict("affine", instances, signature_name=signature)
            assert error.value.status == status
        status, headers, _ = ask(client, "POST", "/v1/models/affine:predict", b'{"instances": [[1.0]]}')
        assert (status, headers["Access-Control-Allow-Origin"]) == (200, "*")
        assert ask(client, "GET", "/", headers={"Accept": "text/html"})[0] == 404
        assert metric(client, ":tensorflow:serving:batching_session:wrapped_run_count") > 4
        with grpc.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
            request = get_model_status_pb2.GetModelStatusRequest()
            request.model_spec.name = "affine"
            states = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(request, timeout=60)
            assert [state.version for state in states.model_version_status] == [2, 1]
        assert "Specific(affine, 9)" in label_error(client, "next")
        models = (tmp_path / "models.config").read_text()
        (tmp_path / "models.config").write_text(models.replace('key: "next"', 'key: "other"'))
        wait_for(lambda: "Unrecognized servable version label" in label_error(client, "next"))
        for host, allowed in {"good.example": 200, "a.better.example": 200, "evil.example": 403}.items():
            assert ask(client, "GET", "/v1/models/affine", headers={"Host": host})[0] == allowed
        for sent, status in {b"": b"", b"GET / HTT": b"HTTP/1.1 408", STUCK: b"HTTP/1.1 408"}.items():
            with socket.create_connection(("127.0.0.1", client.port), timeout=60) as connection:
                connection.sendall(sent)
                assert connection.recv(12) == status
        with socket.create_connection(("127.0.0.1", client.port), timeout=60) as connection:
            connection.sendall(STUCK)
            stop, trickle = threading.Event(), lambda: [connection.sendall(b" ") for _ in iter(wait, True)]
            wait = functools.partial(stop.wait, 0.1)
            with ThreadPoolExecutor(1) as pool:
                trickling = pool.submit(trickle)
                time.sleep(0.3)
                client.process.send_signal(signal.SIGTERM)
                assert client.process.wait(180) == 1
                stop.set()
                trickling.exception(60)
    log = (tmp_path / "log").read_text()
    assert "Traceback" not in log
    assert f"] model affine version 1: loading {base_path}/1\n" in log
    assert re.search(r"\] model affine version 2 loaded in \d+\.\d s\n", log)
    assert log.endswith("SIGTERM: giving up what is not finished after 1 s (--drain_timeout_in_ms)\n")


def test_versions_change_under_load_and_no_request_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    base_path = tmp_path / "affine"
    save_affine(base_path / "1", 1)
    (base_path / "1" / "assets.extra").mkdir()
    (base_path / "1" / "assets.extra" / "tf_serving_warmup_requests").write_bytes(b"no record file")
    save_affine(tmp_path / "new", 3)
    (tmp_path / "monitoring.config").write_text('prometheus_config { enable: true path: "/metrics" }')
    flags = [
        "--model_name=affine",
        "--model_base_path=~/affine",
        "--file_system_poll_wait_seconds=1",
        f"--monitoring_config_file={tmp_path}/monitoring.config",
        "--enable_batching",
        "--noenable_model_warmup",
        "--max_num_load_retries=1",
        "--load_retry_interval_micros=100000",
    ]
    answers, stop = collections.Counter(), threading.Event()

    def load(client):
        while not stop.is_set():
            answers[client.predict("affine", [0.0])[0]] += 1

    with (
        server_process.running(tmp_path / "log", "affine", *flags) as client,
        ThreadPoolExecutor(3) as pool,
    ):
        clients = [pool.submit(load, client) for _ in range(3)]
        try:
            (tmp_path / "broken").mkdir()
            (tmp_path / "broken" / "saved_model.pb").write_bytes(b"truncated")
            shutil.move(tmp_path / "broken", base_path / "2")
            wait_for(lambda: client.status("affine")[0]["state"] == "END")
            assert client.status("affine")[0]["status"]["error_code"] != "OK"
            path = f'model_path="{base_path}/2",status="fail"'
            assert metric(client, f":tensorflow:cc:saved_model:load_attempt_count{{{path}") == 2
            assert client.predict("affine", [0.0]) == [1.0]

            shutil.move(tmp_path / "new", base_path / "3")
            assert ask(client, "GET", "/", headers={"Accept": "text/html"})[0] == 200
            wait_for(lambda: client.predict("affine", [0.0]) == [3.0])
            states = {state["version"]: state["state"] for state in client.status("affine")}
            assert (states["3"], states["1"]) == ("AVAILABLE", "END")

            for version in base_path.iterdir():
                shutil.rmtree(version)
            time.sleep(2.5)  # two looks at an empty directory, after which the last version must still serve
            assert client.predict("affine", [0.0]) == [3.0]
        finally:
            stop.set()
        for future in clients:
            future.result(60)
        client.process.send_signal(signal.SIGTERM)
        assert client.process.wait(180) == 0
    assert answers.keys() == {1.0, 3.0}


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the server did not notice the change"
        time.sleep(0.2)


def errors_of(*flags):
    """Runs the server with flags that cannot work, and returns the lines that it writes to stderr."""
    process = server_process.start(*flags)
    _, errors = process.communicate(timeout=400)
    return lines_of_failure(process.returncode, errors)


def lines_of_failure(code, errors):
    assert code == 1, errors
    assert "Traceback" not in errors
    return errors.splitlines()


def one_line_error(*flags):
    """The same, of an error that shows once TensorFlow, which may write notes, is loaded: the last line."""
    done = run_program("serving.server", "--port=0", *flags, timeout=400)
    lines = lines_of_failure(done.returncode, done.stderr)
    assert sum(line.startswith("error: ") for line in lines) == 1, lines
    return lines[-1]


SIGNALLED_AT_ITS_EXIT = """
import atexit, os, runpy, signal
atexit.register(lambda: os.kill(os.getpid(), signal.SIGTERM))
runpy.run_module("serving.server", run_name="__main__", alter_sys=True)
"""


def test_a_signal_while_it_ends_with_an_error_prints_no_traceback():
    command = [sys.executable, "-c", SIGNALLED_AT_ITS_EXIT, "--model_base_path=gs://b"]
    done = subprocess.run(command, cwd=server_process.ROOT, capture_output=True, text=True, timeout=400)
    assert done.stderr.splitlines() == [
        "error: --model_base_path must be a local directory. Received: gs://b"
    ]
    assert done.returncode == -signal.SIGTERM


def test_a_port_in_use_is_one_clear_line(base_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        lines = errors_of(f"--rest_api_port={port}", f"--model_base_path={base_path}")
    assert lines == [
        f"error: cannot listen on 127.0.0.1 port {port} (--rest_api_port): address already in use"
    ]


def test_nothing_to_serve_is_one_clear_line():
    assert errors_of("--rest_api_port=1") == [
        "error: nothing to serve: give --model_base_path=DIR or --model_config_file=FILE"
    ]


@pytest.mark.parametrize("host", ["192.0.2.1", "[::1]", "no.such.host.invalid"])
def test_an_address_of_another_machine_is_one_clear_line(host):
    (line,) = errors_of(f"--rest_api_port={free_port()}", "--model_base_path=none", f"--host={host}")
    assert re.fullmatch(rf"error: cannot listen on {re.escape(host)} port \d+ \(--host\): .+", line)


def test_a_model_behind_a_url_is_one_clear_line():
    assert errors_of("--rest_api_port=1", "--model_base_path=gs://bucket/model") == [
        "error: --model_base_path must be a local directory. Received: gs://bucket/model"
    ]


@pytest.mark.parametrize(
    ("flag", "others"),
    [
        ("model_config_file", []),
        ("batching_parameters_file", ["--model_base_path=none", "--enable_batching"]),
        ("monitoring_config_file", ["--model_base_path=none"]),
    ],
)
def test_a_file_that_cannot_be_read_is_one_clear_line(flag, others):
    line = one_line_error(f"--rest_api_port={free_port()}", f"--{flag}=none", *others)
    assert line == (
        f"error: --{flag} must be a file that can be read. Received: none (no such file or directory)"
    )


def test_what_cannot_be_served_is_one_clear_line(tmp_path):
    port = f"--rest_api_port={free_port()}"
    assert "there is no version directory" in one_line_error(port, f"--model_base_path={tmp_path}")
    (tmp_path / "1").mkdir()
    assert f"{tmp_path}/1 does not load" in one_line_error(port, f"--model_base_path={tmp_path}")


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        ("--model_name=", "error: --model_name must not be empty"),
        ("--port=1", "error: --port must differ from --rest_api_port. Received: 1 twice"),
        (
            "--model_config_file_poll_wait_seconds=5",
            "error: --model_config_file_poll_wait_seconds needs --model_config_file",
        ),
        (
            "--allowed_hosts=a.example:80",
            "error: --allowed_hosts must be names such as a.example, .example for all that end in it, or *. "
            "Received: 'a.example:80'",
        ),
        (
            "extra",
            "error: a value must follow its flag as --flag=value, in quotes if it contains spaces. "
            "Received: 'extra', which belongs to no flag",
        ),
    ],
)
def test_flags_that_cannot_be_meant_are_one_clear_line(flag, line):
    assert errors_of("--rest_api_port=1", "--model_base_path=none", flag) == [line]


@pytest.mark.parametrize(
    ("flags", "warnings"),
    [
        ([], []),
        (
            ["--model_base_path=none"],
            ["warning: --model_base_path is ignored: --model_config_file names the models"],
        ),
        (
            ["--model_name=default", "--model_base_path=none", "--num_workers=2"],
            ["warning: --model_name and --model_base_path are ignored: --model_config_file names the models"],
        ),
    ],
)
def test_a_model_beside_a_file_of_models_is_said_to_be_ignored(flags, warnings):
    lines = errors_of("--model_config_file=none", *flags)
    assert lines == [*warnings, "error: no REST port: give --rest_api_port=PORT"]


@pytest.mark.parametrize(
    "name",
    ["rest_api_timeout_in_ms", "drain_timeout_in_ms", "max_body_bytes", "file_system_poll_wait_seconds"],
)
def test_numbers_that_no_clock_or_library_knows_are_refused(name):
    lines = errors_of(f"--{name}={10**20}")
    assert any(f"flag --{name}={10**20}: {10**20} is not an integer in the range" in line for line in lines)


WITHOUT_IPV6 = """
import errno, os, socket
from convnlp.serving import ports
def refuse(family):
    assert family == socket.AF_INET6
    raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
socket.socket = refuse
try:
    ports.listener("::1", 8501)
except ValueError as error:
    print(error)
"""


def test_an_address_of_a_family_that_the_system_does_not_have_is_one_clear_line():
    command = [sys.executable, "-c", WITHOUT_IPV6]
    done = subprocess.run(command, cwd=server_process.ROOT, capture_output=True, text=True, timeout=400)
    line = "cannot listen on ::1 port 8501 (--host): address family not supported by protocol\n"
    assert done.stdout == line, done.stderr


TWO_ON_A_PORT = """
import sys
from convnlp.serving import ports
first, second = (ports.listener("127.0.0.1", int(sys.argv[1])) for _ in range(2))
ports.listen(first)
try:
    ports.listen(second)
except ValueError as error:
    print(error)
"""


def test_of_two_servers_that_begin_together_one_gets_the_port():
    """Both have bound it before either listens; the second one finds out once its models are loaded."""
    port = free_port()
    command = [sys.executable, "-c", TWO_ON_A_PORT, str(port)]
    done = subprocess.run(command, cwd=server_process.ROOT, capture_output=True, text=True, timeout=400)
    line = f"cannot listen on 127.0.0.1 port {port} (--rest_api_port): address already in use\n"
    assert done.stdout == line, done.stderr


WHAT_FLAGS_SAY = """
import dataclasses, json, sys
from absl import flags
from convnlp.serving import server_flags
flags.FLAGS(["serve", *sys.argv[1:]])
said = {
    "limits": dataclasses.asdict(server_flags.limits()),
    "timeouts": dataclasses.asdict(server_flags.timeouts()),
    "drain": server_flags.drain_seconds(),
    "threads": server_flags.num_threads(),
    "warmups": server_flags.num_warmups(),
}
print(json.dumps(said))
"""


def said(*given):
    command = [sys.executable, "-c", WHAT_FLAGS_SAY, *given]
    done = subprocess.run(command, cwd=server_process.ROOT, capture_output=True, text=True, timeout=400)
    return json.loads(done.stdout)


def test_each_number_is_that_of_its_own_flag():
    names = {field.name for field in dataclasses.fields(Limits)} - {"timeout_ms"}
    limits = {name: number for number, name in enumerate(sorted(names), start=10)}
    times = {"idle": 1.5, "read": 2.5, "write": 3.5}
    found = said(
        *(f"--max_{name}={number}" for name, number in limits.items()),
        *(f"--rest_api_{name}_timeout_in_ms={seconds * 1000:.0f}" for name, seconds in times.items()),
        *("--rest_api_timeout_in_ms=4", "--drain_timeout_in_ms=5500", "--num_workers=2"),
        *("--rest_api_num_threads=6", "--num_request_iterations_for_warmup=7"),
    )
    assert found["limits"] == {**limits, "timeout_ms": 4}
    assert found["timeouts"] == times
    assert (found["drain"], found["threads"], found["warmups"]) == (5.5, 6, 7)
    assert said("--noenable_model_warmup", "--num_request_iterations_for_warmup=7")["warmups"] == 0


DEFAULTS = """
import json
from absl import flags
from convnlp.serving import server_flags
own = flags.FLAGS.flags_by_module_dict()[server_flags.__name__]
print(json.dumps({flag.name: flag.default for flag in own}))
"""
WORDS = dict.fromkeys(("none", "none: nowhere", "any; with `--host` on loopback: none")) | {
    "true": True,
    "false": False,
    "`default`": "default",
    "127.0.0.1": "127.0.0.1",
    "4 per core": 4 * num_cores(),
}


def default(words):
    """The value that the page means, such as 1048576 by "1 MiB"."""
    if words in WORDS:
        return WORDS[words]
    number, _, unit = words.replace(",", "").partition(" ")
    return int(number) * {"": 1, "MiB": 2**20}[unit]


def test_the_page_lists_every_flag_with_its_default():
    page, listed = (server_process.ROOT / "docs" / "serving.md").read_text(encoding="utf-8"), {}
    for names, cell in re.findall(r"^\| (`--[^|]*) \|.* \| ([^|]*) \|$", page, re.MULTILINE):
        names = re.findall(r"`--(\w+)`", names)
        cells = cell.split(", ") if len(names) > 1 else [cell]
        listed |= {name: default(words) for name, words in zip(names, cells, strict=True)}
    command = [sys.executable, "-c", DEFAULTS]
    done = subprocess.run(command, cwd=server_process.ROOT, capture_output=True, text=True, timeout=400)
    assert listed == json.loads(done.stdout)


WITHOUT_GRPC = """
import socket, sys
import grpc
from absl import flags
from convnlp.serving import ports, server_flags
flags.FLAGS(["serve", *sys.argv[1:]])
port = server_flags.GRPC_PORT.value
with socket.socket() as other:
    try:
        other.bind(("127.0.0.1", port))
        other.listen()
    except OSError:  # somebody else has it, which is as good
        pass
    for take in (lambda: ports.bind_grpc(grpc.server(None), "127.0.0.1", port),
                 lambda: ports.reserve_grpc("127.0.0.1", port)):
        try:
            print(take())
        except ValueError as error:
            print(error)
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], ["0", "(None, 0)"]),
        (["--port=8500"], ["cannot listen on 127.0.0.1 port 8500 (--port): in use?"] * 2),
    ],
)
def test_the_default_port_of_grpc_may_be_in_use(given, expected):
    command = [sys.executable, "-c", WITHOUT_GRPC, *given]
    done = subprocess.run(command, cwd=server_process.ROOT, capture_output=True, text=True, timeout=400)
    assert done.stdout.splitlines() == expected, done.stderr
    line = "no gRPC: port 8500 is in use, choose another one with --port"
    assert done.stderr.splitlines().count(line) == (0 if given else 2)


def test_a_flag_that_is_not_implemented_does_not_exist():
    process = server_process.start("--rest_api_port=1", "--use_alts_credentials")
    _, errors = process.communicate(timeout=400)
    assert process.returncode != 0
    assert "Unknown command line flag 'use_alts_credentials'" in errors
