"""Past a limit: a clear answer, and the server goes on."""

import asyncio
import gzip
import json
import threading

import numpy as np
import pytest

from serving.core.errors import ServingError
from serving.core.limits import Gate, Limits
from serving.core.runner import Runner
from tests.serving.in_process import InProcess, request

PATH = "/v1/models/affine:predict"


def test_each_limit_has_its_answer(model_folder, model_configs):
    limits = Limits(body_bytes=128, batch_size=3, text_bytes=5)
    models = InProcess(model_folder, model_configs, limits=limits)

    def post(body, path=PATH, headers=()):
        status, answer = models.post(path, body, headers)
        return status, json.loads(answer).get("error")

    body_error = (413, "Request body is larger than 128 bytes (--max_body_bytes)")
    assert post(b'{"instances": [1]}')[0] == 200
    assert post(b'{"instances": [1]}' + b" " * 128) == body_error
    assert post(b"", headers=[("Content-Length", "129")]) == body_error
    bomb = gzip.compress(b'{"instances": [1]}' + b" " * 10_000)
    assert len(bomb) < 128
    assert post(bomb, headers=[("Content-Encoding", "gzip")]) == body_error
    assert post(b'{"instances": [1, 2, 3, 4]}') == (413, "Batch of 4 is larger than 3 (--max_batch_size)")
    two = '{{"signature_name": "two", "inputs": ["{}"]}}'
    assert post(two.format("é" * 2).encode(), "/v1/models/g:predict")[0] == 200
    error = "Text of 6 bytes is longer than 5 (--max_text_bytes)"
    assert post(two.format("é" * 3).encode(), "/v1/models/g:predict") == (413, error)


def test_a_request_that_takes_too_long_is_given_up(model_folder, model_configs):
    models = InProcess(model_folder, model_configs, limits=Limits(timeout_ms=200))
    status, answer = models.post(PATH, b'{"signature_name": "slow", "instances": [1]}')
    assert (status, json.loads(answer)) == (504, {"error": "Timed out waiting for notification"})


class Held:
    """A model that answers when it is told to."""

    def __init__(self):
        self.gate = threading.Event()

    def run(self, feeds, fetches):
        self.gate.wait(60)
        return [feeds["x"]]


def test_the_queue_of_a_model_ends():
    runner, model = Runner(1, 2), Held()
    futures = [runner.submit(model, {"x": np.array(number)}, ("y",)) for number in range(3)]
    with pytest.raises(
        ServingError, match=r"More than 3 requests wait for a model \(--max_queue_length\)"
    ) as error:
        runner.submit(model, {"x": np.array(3)}, ("y",))
    assert error.value.http_status == 429
    model.gate.set()
    assert [future.result(60)[0] for future in futures] == [0, 1, 2]
    runner.close()


def test_concurrent_requests_end(model_folder, model_configs):
    models = InProcess(model_folder, model_configs, limits=Limits(concurrent_requests=2))

    async def three():
        body = b'{"instances": [1]}'
        return await asyncio.gather(*(request(models.app, "POST", PATH, body) for _ in range(3)))

    answers = asyncio.run(three())
    assert [status for status, _, _ in answers] == [200, 200, 429]
    assert json.loads(answers[2][2]) == {
        "error": "More than 2 concurrent requests (--max_concurrent_requests)"
    }
    assert [status for status, _, _ in asyncio.run(three())] == [200, 200, 429]  # and nothing is left behind


def test_a_gate_counts_out_what_it_counted_in():
    gate = Gate(1, "things")
    for _ in range(3):
        gate.enter()
        with pytest.raises(ServingError):
            gate.enter()
        gate.leave()
    assert gate.inside == 0
