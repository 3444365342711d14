"""Requests that nobody waits for any more: what they asked for is not computed."""

import json
import socket
import time
from concurrent.futures import Future

import pytest

from convnlp.serving.core.batching import Batcher
from convnlp.serving.core.batching_options import BatchingOptions
from convnlp.serving.core.limits import Limits
from convnlp.serving.core.metrics import Metrics
from tests.serving import server_thread
from tests.serving.in_process import InProcess


class Waiting:
    """A runner whose futures nobody finishes but the test."""

    def __init__(self):
        self.futures = []

    def submit(self, servable, feeds, fetches):
        self.futures.append(Future())
        return self.futures[-1]


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def send(port, instances, signature="serving_default"):
    """Sends a request, and returns the connection."""
    body = json.dumps({"signature_name": signature, "instances": instances}).encode()
    head = (
        f"POST /v1/models/affine:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(head.encode() + body)
    return connection


@pytest.mark.parametrize("end", ["close", "reset"])
def test_a_client_that_goes_cancels_its_computation(model_folder, model_configs, end):
    runner = Waiting()
    models = InProcess(model_folder, model_configs, runner=runner)
    with server_thread.serving(models.app) as port:
        gone, stays = send(port, [1.0]), send(port, [2.0])
        until(lambda: len(runner.futures) == 2)
        if end == "reset":
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        gone.close()
        until(lambda: any(future.cancelled() for future in runner.futures))
        (kept,) = [future for future in runner.futures if not future.cancelled()]
        until(lambda: models.metrics.request_count.value("affine", "CANCELLED") == 1)
        kept.set_exception(RuntimeError("answered"))
        assert b" 500 " in stays.recv(4096)
        stays.close()
    assert models.app._gate.inside == 0


def test_two_abandoned_requests_hold_up_nobody(model_folder, model_configs):
    """They run in parts: the one that runs is ended, and there is no other."""
    options = BatchingOptions(
        max_batch_size=64,
        max_enqueued_batches=100,
        num_batch_threads=1,
        enable_large_batch_splitting=True,
        max_execution_batch_size=2,
    )
    metrics = Metrics()
    batcher = Batcher(options, metrics)
    models = InProcess(model_folder, model_configs, runner=batcher, limits=Limits(timeout_ms=10**7))
    with server_thread.serving(models.app) as port:
        abandoned = [send(port, [1.0] * 64, "slow") for _ in range(2)]
        until(lambda: len(batcher._waiting) == 63)
        for connection in abandoned:
            connection.close()
        until(lambda: batcher._waiting == [])
        until(lambda: batcher._num_busy == 0)
        with send(port, [1.0]) as connection:
            assert b" 200 " in connection.recv(4096)
    assert metrics.wrapped_runs.value() == 2  # one part of the 64, and the last request
    batcher.close()
