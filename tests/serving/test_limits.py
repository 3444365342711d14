"""Past a limit: a clear answer, and the server goes on."""

import asyncio
import gzip
import json
import threading
import time
import weakref
import zlib

import numpy as np
import pytest

from convnlp.serving.core.errors import ServingError
from convnlp.serving.core.limits import Gate, Limits
from convnlp.serving.core.runner import Runner
from convnlp.serving.rest import body as rest_body
from convnlp.serving.rest import examples, predict
from convnlp.serving.rest.aside import Aside
from tests.serving.in_process import InProcess, request

PATH = "/v1/models/affine:predict"


def test_each_limit_has_its_answer(model_folder, model_configs):
    limits = Limits(body_bytes=128, batch_size=3, text_bytes=5)
    models = InProcess(model_folder, model_configs, limits=limits)

    def post(body, path=PATH, headers=()):
        status, answer = models.post(path, body, headers)
        return status, json.loads(answer).get("error")

    body_error = (413, "Request body is larger than 128 bytes (--max_body_bytes)")
    assert post(b'{"instances": [1]}' + b" " * 110)[0] == 200
    assert post(b'{"instances": [1]}' + b" " * 111) == body_error
    assert post(b"", headers=[("Content-Length", "129")]) == body_error
    bomb = gzip.compress(b'{"instances": [1]}' + b" " * 10_000)
    assert len(bomb) < 128
    assert post(bomb, headers=[("Content-Encoding", "gzip")]) == body_error
    assert post(b'{"instances": [1, 2, 3]}')[0] == 200
    assert post(b'{"instances": [1, 2, 3, 4]}') == (413, "Batch of 4 is larger than 3 (--max_batch_size)")
    two = '{{"signature_name": "two", "inputs": ["a", "{}"]}}'
    assert post(two.format("é" * 2 + "e").encode(), "/v1/models/g:predict")[0] == 200
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

    def run(self, feeds, fetches, cancellation):
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


def test_any_error_of_a_model_reaches_who_waits():
    class Broken:
        def run(self, feeds, fetches, cancellation):
            raise MemoryError("none left")

    runner = Runner(1, 0)
    with pytest.raises(MemoryError, match="none left"):
        runner.submit(Broken(), {}, ("y",)).result(60)
    runner.close()


def test_a_tensor_is_counted_in_bytes():
    Limits(body_bytes=24).check_tensor((2, 3), 4)
    with pytest.raises(ServingError, match=r"Tensor of the shape \[2, 3\] takes 48 bytes, more than 24 \("):
        Limits(body_bytes=24).check_tensor((2, 3), 8)


@pytest.mark.parametrize("kind", ["runner", "aside"])
def test_a_request_that_is_given_up_before_its_turn_keeps_no_memory(kind):
    """Nor does it count any more, so clients that come and go could fill the memory."""
    model, runner, aside = Held(), Runner(1, 2), Aside()

    def submit(array):
        if kind == "runner":
            return runner.submit(model, {"x": array}, ("y",))
        return aside.submit(lambda: model.run({"x": array}, ("y",), None), 2**21)

    first, array = submit(np.array(1)), np.zeros(8)
    kept, waiting = weakref.ref(array), submit(array)
    del array
    assert waiting.cancel()
    assert kept() is None
    model.gate.set()
    assert first.result(60)[0] == 1
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


def test_a_request_too_many_is_refused_before_its_body_is_read(model_folder, model_configs):
    models = InProcess(model_folder, model_configs, limits=Limits(concurrent_requests=1))
    sent, scope = [], {"method": "POST", "target": PATH, "headers": []}

    async def receive():
        pytest.fail("the body is read")

    async def send(message):
        sent.append(message)

    models.app._gate.enter()  # another request is being run
    asyncio.run(models.app(scope, receive, send))
    assert sent[0]["status"] == 429


def test_a_gate_counts_out_what_it_counted_in():
    gate = Gate(1, "things")
    for _ in range(3):
        gate.enter()
        with pytest.raises(ServingError):
            gate.enter()
        gate.leave()
    assert gate.inside == 0


def test_a_batch_is_counted_before_there_are_tensors_of_it(models, monkeypatch):
    for name in ("tensors_from_instances", "tensors_from_inputs"):
        monkeypatch.setattr(predict, name, None)
    monkeypatch.setattr(examples, "_add_plain", None)
    million = json.dumps([1] * 10**6)
    example = '{"signature_name": "regress", "examples": [%s{}]}' % ('{"x": 1.0},' * 5000)
    for path, body in {
        PATH: f'{{"instances": {million}}}',
        "/v1/models/g:predict": f'{{"inputs": {million}}}',
        "/v1/models/affine:predict": f'{{"inputs": {{"x": {million}}}}}',
        "/v1/models/g:regress": example,
    }.items():
        status, answer = models.post(path, body.encode())
        assert status == 413
        assert "larger than 4096 (--max_batch_size)" in json.loads(answer)["error"]


def test_a_context_counts_as_often_as_it_is_copied(model_folder, model_configs):
    models = InProcess(model_folder, model_configs, limits=Limits(body_bytes=2**16))
    context = json.dumps({"a": "x" * 1000})
    body = '{"signature_name": "regress", "context": %s, "examples": [%s{"x": 1.0}]}'
    status, answer = models.post("/v1/models/g:regress", (body % (context, '{"x":1.0},' * 100)).encode())
    assert status == 413
    error = json.loads(answer)["error"]
    assert error.startswith("The context of 101 examples takes ")
    assert error.endswith(" bytes, more than 65536 (--max_body_bytes)")
    assert models.post("/v1/models/g:regress", (body % (context, '{"x":1.0},' * 9)).encode())[0] == 200


def test_the_nodes_of_a_large_document_are_counted_before_it_is_read(
    model_folder, model_configs, monkeypatch
):
    models = InProcess(model_folder, model_configs, limits=Limits(json_nodes=2**20))
    monkeypatch.setattr(predict, "read_object", None)
    body = b'{"inputs": [' + b"[]," * 2**20 + b"1]}"
    error = "More than 1048576 arrays, objects and members in the body (--max_json_nodes)"
    status, answer = models.post(PATH, body)
    assert (status, json.loads(answer)) == (413, {"error": error})


def test_the_nodes_of_a_small_document_are_counted_too(model_folder, model_configs):
    models = InProcess(model_folder, model_configs, limits=Limits(json_nodes=3))
    assert models.post(PATH, b'{"inputs": [1.0]}')[0] == 200
    status, answer = models.post(PATH, b'{"inputs": [1.0], "a": {}}')
    error = "More than 3 arrays, objects and members in the body (--max_json_nodes)"
    assert (status, json.loads(answer)) == (413, {"error": error})


def test_a_bomb_is_decompressed_no_further_than_the_limit(model_folder, model_configs, monkeypatch):
    limits = Limits(decompressed_bytes=2**21 + 5)
    models = InProcess(model_folder, model_configs, limits=limits)
    pieces = []
    unzip = rest_body._unzip

    def counted(body):
        for piece in unzip(body):
            pieces.append((len(piece), threading.current_thread() is threading.main_thread()))
            yield piece

    monkeypatch.setattr(rest_body, "_unzip", counted)
    zipped = [("Content-Encoding", "gzip")]
    bomb = gzip.compress(b" " * 2**27)
    status, answer = models.post(PATH, bomb, zipped)
    error = "Request body is larger than 2097157 bytes (--max_decompressed_bytes)"
    assert (status, json.loads(answer)) == (413, {"error": error})
    assert pieces == [(2**20, False)] * 3
    whole = b'{"instances": [1]}' + b" " * (2**21 - 18)
    assert models.post(PATH, gzip.compress(whole + b" " * 5), zipped)[0] == 200
    assert models.post(PATH, gzip.compress(whole + b" " * 6), zipped)[0] == 413
    assert models.app._in_flight.inside == 0


@pytest.mark.parametrize("size", [0, 1, 2**20 - 1, 2**20, 2**20 + 1, 2**21, 5 * 2**20 + 7])
@pytest.mark.parametrize("source", ["zeros", "noise"])
def test_pieces_make_up_the_whole(size, source):
    noise = np.random.default_rng(0).integers(0, 256, size, np.uint8).tobytes()
    content = bytes(size) if source == "zeros" else noise
    zipped = gzip.compress(content)
    pieces = list(rest_body._unzip(zipped + b"behind it"))
    assert b"".join(pieces) == content
    assert all(0 < len(piece) <= 2**20 for piece in pieces)
    for damaged in (zipped[:-1], zipped[:-9] + b"wrong sum", b""):
        with pytest.raises(zlib.error):
            list(rest_body._unzip(damaged))


def test_bytes_under_way_end_but_small_requests_go_on(model_folder, model_configs):
    models = InProcess(model_folder, model_configs, limits=Limits(bytes_in_flight=50_000))
    small, large = b'{"instances": [1]}', b'{"instances": [1]}' + b" " * 100_000
    gate = threading.Event()
    models.app._aside._small.submit(gate.wait, 60)
    models.app._aside._small.submit(gate.wait, 60)  # nobody reads large bodies now

    async def ask():
        first = asyncio.ensure_future(request(models.app, "POST", PATH, large))
        await asyncio.sleep(0)
        refused = await request(models.app, "POST", PATH, large)
        beside = await request(models.app, "POST", PATH, small)
        inside = models.app._in_flight.inside
        gate.set()
        return (await first)[0], refused, beside[0], inside

    first, refused, beside, inside = asyncio.run(ask())
    assert (first, beside, inside) == (200, 200, len(large) - 2**16)
    error = "More than 50000 bytes of requests under way (--max_bytes_in_flight)"
    assert (refused[0], json.loads(refused[2])) == (429, {"error": error})
    assert models.app._in_flight.inside == 0


def test_large_bodies_wait_for_each_other_and_not_the_others_for_them(models):
    gate = threading.Event()
    models.app._aside._large.submit(gate.wait, 60)
    plain = b'{"instances": [1]}'
    bomb = gzip.compress(plain + b" " * (12 * 2**20))
    zipped = [("Content-Encoding", "gzip")]

    async def ask():
        bombs = [asyncio.ensure_future(request(models.app, "POST", PATH, bomb, zipped)) for _ in range(6)]
        await asyncio.sleep(0)
        beside = [
            (await request(models.app, "POST", PATH, plain))[0],
            (await request(models.app, "POST", PATH, plain + b" " * 30_000))[0],
            (await request(models.app, "POST", PATH, gzip.compress(plain), zipped))[0],
        ]
        waiting = [bomb.done() for bomb in bombs]
        gate.set()
        return beside, waiting, [(await bomb)[0] for bomb in bombs]

    assert asyncio.run(ask()) == ([200] * 3, [False] * 6, [200] * 6)


def test_nothing_large_or_slow_is_read_on_the_event_loop(models, monkeypatch):
    threads = []
    read = predict.read

    def watched(body):
        threads.append(threading.current_thread() is threading.main_thread())
        return read(body)

    monkeypatch.setattr(predict, "read", watched)
    for body, status in {
        b'{"instances": [1]}' + b" " * 2**14: 200,
        b'{"instances": [1]' + b" " * 2**14: 400,
        b'{"instances": [-NaN, 1': 400,
        b'{"instances": [1.]}': 400,
    }.items():
        assert models.post(PATH, body)[0] == status
    assert threads == [False] * 4
    assert models.post(PATH, b' {"instances": [1], "other": "\\u00e9\\ud83d\\ude00"}')[0] == 200
    assert len(threads) == 4


def test_what_a_request_gave_up_is_counted_until_it_ends(model_folder, model_configs, monkeypatch):
    models = InProcess(model_folder, model_configs, limits=Limits(timeout_ms=100))
    gate, read = threading.Event(), predict.read
    monkeypatch.setattr(predict, "read", lambda body: gate.wait(60) and read(body))
    status, _ = models.post(PATH, b'{"instances": [1]}' + b" " * 100_000)
    assert status == 504
    assert models.app._in_flight.inside > 0
    gate.set()
    deadline = time.monotonic() + 60
    while models.app._in_flight.inside or models.manager._versions._users:
        assert time.monotonic() < deadline
        time.sleep(0.01)
