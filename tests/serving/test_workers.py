"""`--num_workers`: several processes are one server to whoever asks, and to whoever ends one of them."""

import collections
import contextlib
import functools
import json
import os
import re
import shutil
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from tensorflow_serving.apis import model_management_pb2, model_service_pb2_grpc

from convnlp.serving.client import Client, RequestError
from tests.serving import server_process
from tests.serving.small_models import free_port, save_affine
from tests.serving.test_server import ask, errors_of, wait_for
from tests.serving.test_stopping import save_counting

pytestmark = [pytest.mark.serving, pytest.mark.multiprocess]

COUNTS = ":tensorflow:serving:request_count"


def processes(client):
    """The process ids of the workers."""
    pid = client.process.pid
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return list(map(int, file.read().split()))


def counts(client, name):
    """{worker: requests for a model that it has answered}."""
    page = ask(client, "GET", "/metrics")[2].decode()
    found = re.findall(rf'^{COUNTS}{{worker="(\d)",model_name="{name}",status="OK"}} (\d+)$', page, re.M)
    return {int(worker): int(count) for worker, count in found}


def states(client, name="affine"):
    return {int(state["version"]): state["state"] for state in client.status(name)}


def of_all(client, question):
    """What a question is answered, by however many workers get it."""
    return {json.dumps(question(client)) for _ in range(20)}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The directory of the models `affine` and `counting`, and a file that names them."""
    folder = tmp_path_factory.mktemp("workers")
    save_affine(folder / "affine" / "1", 1)
    save_affine(folder / "new", 2)
    save_counting(folder / "counting" / "1")
    (folder / "models.config").write_text(configuration(folder, "affine", "counting"))
    (folder / "monitoring.config").write_text('prometheus_config { enable: true path: "/metrics" }')
    return folder


def configuration(folder, *names):
    entry = 'config {{ name: "{0}" base_path: "{1}/{0}" model_platform: "tensorflow" }}'
    return f"model_config_list {{ {' '.join(entry.format(name, folder) for name in names)} }}"


def flags(models):
    return [
        f"--model_config_file={models}/models.config",
        f"--monitoring_config_file={models}/monitoring.config",
        "--drain_timeout_in_ms=120000",
        "--num_workers=2",
    ]


def test_two_workers_are_one_server(models, tmp_path):
    grpc_port = free_port()
    answers, failures, stop = collections.Counter(), [], threading.Event()

    def load(client):
        while not stop.is_set():
            try:
                once = Client(f"http://127.0.0.1:{client.port}", retries=0)  # on a connection of its own
                answers[once.predict("affine", [0.0])[0]] += 1
            except (RequestError, OSError) as error:
                failures.append(error)

    with (
        server_process.running(tmp_path / "log", "affine", *flags(models), f"--port={grpc_port}") as client,
        ThreadPoolExecutor(4) as pool,
    ):
        clients = [pool.submit(load, client) for _ in range(4)]
        try:
            wait_for(lambda: counts(client, "affine").keys() == {1, 2})
            first = processes(client)
            assert len(first) == 2
            assert not failures

            # A new version: all serve it, and say so.
            shutil.move(models / "new", models / "affine" / "2")
            wait_for(lambda: states(client) == {2: "AVAILABLE", 1: "END"})
            assert of_all(client, lambda each: each.status("affine")) == {json.dumps(client.status("affine"))}
            assert of_all(client, lambda each: each.predict("affine", [0.0])) == {"[2.0]"}

            # One that does not load is an error at all of them.
            (models / "affine" / "3").mkdir()
            (models / "affine" / "3" / "saved_model.pb").write_bytes(b"truncated")
            wait_for(
                lambda: states(client).get(3) == "LOADING" and "OK" not in str(client.status("affine")[0])
            )
            assert len(of_all(client, lambda each: each.status("affine"))) == 1

            # Another configuration, told to one of them, reaches both.
            with grpc.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
                request = model_management_pb2.ReloadConfigRequest()
                for name in ("affine", "counting", "again"):
                    request.config.model_config_list.config.add(
                        name=name,
                        base_path=str(models / name.replace("again", "counting")),
                        model_platform="tensorflow",
                    )
                stub = model_service_pb2_grpc.ModelServiceStub(channel)
                with pytest.raises(grpc.RpcError) as error:  # of the version that does not load
                    stub.HandleReloadConfigRequest(request, timeout=120)
                assert "model affine version 3" in error.value.details()
                config = request.config.model_config_list.config[0]
                config.version_labels["best"] = 9
                with pytest.raises(grpc.RpcError) as error:
                    stub.HandleReloadConfigRequest(request, timeout=120)
                assert error.value.code() == grpc.StatusCode.FAILED_PRECONDITION
            assert of_all(client, lambda each: states(each, "again")) == {'{"1": "AVAILABLE"}'}

            # One is killed: its requests are lost, no others, and another takes its place with all of that.
            assert not failures
            os.kill(first[0], signal.SIGKILL)
            wait_for(lambda: first[0] not in processes(client) and len(processes(client)) == 2)
            assert set(processes(client)) - set(first)
            # Nobody has asked `counting` before; what the dead one had counted is still shown for a while.
            wait_for(lambda: client.predict("counting", [1]) and counts(client, "counting").keys() == {1, 2})
            wait_for(lambda: "takes its place" in (tmp_path / "log").read_text())
            assert len(failures) <= len(clients)
            assert of_all(client, lambda each: states(each, "again")) == {'{"1": "AVAILABLE"}'}
            assert of_all(client, lambda each: each.predict("affine", [0.0])) == {"[2.0]"}
        finally:
            stop.set()
            shutil.rmtree(models / "affine" / "3", ignore_errors=True)
        for future in clients:
            future.result(60)
        assert len(failures) <= len(clients)

        # SIGTERM: what is under way is answered.
        started = time.monotonic()
        client.predict("counting", [20_000])
        steps = int(20_000 * 3 / (time.monotonic() - started))  # some seconds
        slow = [pool.submit(client.predict, "counting", [steps + number]) for number in range(4)]
        time.sleep(1)
        assert not any(future.done() for future in slow)
        client.process.send_signal(signal.SIGTERM)
        assert [future.result(120) for future in slow] == [
            [{"y": 2 * (steps + number), "z": 3 * (steps + number)}] for number in range(4)
        ]
        assert client.process.wait(180) == 0
        assert not listens(client.port)
    assert answers.keys() == {1.0, 2.0}
    log = (tmp_path / "log").read_text()
    assert "Traceback" not in log
    assert f"worker 1, process {first[0]}, was ended by SIGKILL; process " in log
    assert log.count("page to try them: ") == log.count(f"gRPC on port {grpc_port}") == 1
    assert log.count("serving affine version 1: ") == 1


def listens(port):
    """Whether somebody listens on a port."""
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 10):
        return True
    return False


def test_workers_end_with_their_supervisor(models, tmp_path):
    with server_process.running(tmp_path / "log", "affine", *flags(models)) as client:
        wait_for(lambda: "page to try them" in (tmp_path / "log").read_text())
        workers = processes(client)
        client.process.kill()
        client.process.wait(60)
        for pid in workers:
            wait_for(functools.partial(has_ended, pid))
        assert not listens(client.port)


def has_ended(pid):
    return not os.path.exists(f"/proc/{pid}")


def test_ports_in_use_are_one_clear_line(models):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert errors_of(f"--rest_api_port={port}", *flags(models)) == [
            f"error: cannot listen on 127.0.0.1 port {port} (--rest_api_port): address already in use"
        ]
        assert errors_of(f"--rest_api_port={free_port()}", *flags(models), f"--port={port}") == [
            f"error: cannot listen on 127.0.0.1 port {port} (--port): in use?"
        ]


def test_what_cannot_be_served_is_one_clear_line(tmp_path):
    (tmp_path / "1").mkdir()
    lines = errors_of(f"--rest_api_port={free_port()}", f"--model_base_path={tmp_path}", "--num_workers=2")
    # Not always the last line: the other worker may write its note, that the version does not load, later.
    (line,) = [line for line in lines if line.startswith("error: ")]
    assert f"{tmp_path}/1 does not load" in line
