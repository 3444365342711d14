"""What workers are made of: messages, ports, the page of metrics, a version that is put off."""

import errno
import json
import os
import selectors
import signal
import socket
import subprocess
import threading

import pytest

from convnlp.serving.core.drain import SIGNALS
from convnlp.serving.core.errors import ServingError
from convnlp.serving.core.metrics import Metrics
from convnlp.serving.core.model_config import ModelConfig
from convnlp.serving.core.models import ModelManager
from convnlp.serving.core.retries import PutOffError
from convnlp.serving.workers.channel import Channel, written
from convnlp.serving.workers.metrics_page import merged
from convnlp.serving.workers.sockets import reserve, shared
from convnlp.serving.workers.supervisor import Supervisor, _Member
from convnlp.serving.workers.worker import Worker
from tests.run_program import run_code


def test_messages_arrive_whole_and_in_order():
    """Larger than a socket takes at once, in pieces, several at once."""
    ours, its = socket.socketpair()
    channel = Channel(ours)
    assert channel.receive() == []
    messages = [{"page": "é" * 400_000, "number": number} for number in range(3)]
    for message in messages:
        channel.send(message)
    assert channel.has_more_to_send
    received = bytearray()
    reader = threading.Thread(
        target=lambda: [received.extend(piece) for piece in iter(lambda: its.recv(9999), b"")]
    )
    reader.start()
    while channel.has_more_to_send:
        channel.flush()
    ours.shutdown(socket.SHUT_WR)
    reader.join(60)
    assert bytes(received) == b"".join(map(written, messages))
    its.sendall(written({"a": 1}) + written({"b": 2}) + b'{"c"')
    assert channel.receive() == [{"a": 1}, {"b": 2}]
    its.sendall(b": 3}\n")
    assert channel.receive() == [{"c": 3}]
    its.close()
    assert channel.receive() is None
    channel.send({"to": "nobody"})
    channel.close()


def test_a_page_has_the_samples_of_all():
    pages = {}
    for number in (1, 2):
        metrics = Metrics()
        metrics.request_count.add('a"}{', "OK", by=number)
        metrics.input_batch_size.observe(3)
        pages[number] = metrics.page()
    lines = merged(pages).splitlines()
    counts = [line for line in lines if line.startswith(":tensorflow:serving:request_count{")]
    assert counts == [
        f':tensorflow:serving:request_count{{worker="{number}",model_name="a\\"}}{{",status="OK"}} {number}'
        for number in (1, 2)
    ]
    assert ':tensorflow:serving:batching_session:input_batch_size_count{worker="2"} 1' in lines
    assert lines.count("# TYPE :tensorflow:serving:request_count counter") == 1
    families = [line for line in lines if line.startswith("#")]
    assert len(families) == len(set(families))
    assert len(lines) == sum(len(page.splitlines()) for page in pages.values()) - len(families)
    assert merged({}) == ""


def test_only_a_line_feed_ends_a_line_of_a_page():
    name, metrics = "a\u2028b\x85c\rd\x0be", Metrics()
    metrics.request_count.add(name, "OK")
    counts = f':tensorflow:serving:request_count{{worker="1",model_name="{name}",status="OK"}} 1\n'
    assert counts in merged({1: metrics.page()})


def test_a_shared_listener_keeps_its_queue():
    """asyncio asks for the number of connections that it takes at a time."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener = shared(listener)
    with listener:
        listener.listen(1)
        waiting = [socket.create_connection(listener.getsockname(), 10) for _ in range(20)]
        assert [listener.accept()[1] for _ in waiting] == [each.getsockname() for each in waiting]
        for each in waiting:
            each.close()


def test_a_reserved_port_is_that_of_the_workers_alone():
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as other:
        with pytest.raises(OSError, match="in use"):
            reserve(*other.getsockname())
        address = other.getsockname()
    with reserve(*address):
        with pytest.raises(OSError, match="in use"):
            socket.create_server(address)
        for _ in range(2):
            socket.create_server(address, reuse_port=True).close()


class Model:
    """A version that is loaded."""

    def __init__(self, name, version):
        self.name, self.version = name, version

    def close(self):
        """It holds nothing."""


def test_a_version_that_is_put_off_is_loaded_at_the_next_look(tmp_path):
    (tmp_path / "1").mkdir()
    attempts = []

    def load(name, version, path):
        attempts.append(version)
        if attempts.count(2) == 1 and version == 2:
            raise PutOffError("another worker has not found it yet")
        return Model(name, version)

    manager = ModelManager([ModelConfig("m", str(tmp_path))], load)
    manager.load()
    (tmp_path / "2").mkdir()
    manager.look()
    states = manager.status("m")
    assert (states[2].state, states[2].error_code, states[1].state) == ("LOADING", "OK", "AVAILABLE")
    manager.look()
    assert {version: state.state for version, state in manager.status("m").items()} == {
        2: "AVAILABLE",
        1: "END",
    }
    assert attempts == [1, 2, 2]


def test_what_others_serve_is_loaded_where_the_newest_version_does_not(tmp_path):
    """A worker that takes the place of a dead one, while a broken version lies there."""
    for version in "123":
        (tmp_path / version).mkdir()

    def load(name, version, path):
        if version == 3:
            raise ServingError("DATA_LOSS", "broken")
        return Model(name, version)

    configs = [ModelConfig("m", str(tmp_path))]
    with pytest.raises(ValueError, match="3 does not load: broken"):
        ModelManager(configs, load).load()
    manager = ModelManager(configs, load)
    manager.load(kept=[("m", 1), ("m", 9), ("other", 2)])
    assert manager.available() == [("m", 1)]
    assert manager.status("m")[3].error_code == "DATA_LOSS"
    with pytest.raises(ValueError, match="3 does not load: broken"):
        ModelManager(configs, load).load(kept=[("other", 1)])


def test_kept_versions_go_once_the_newest_has_loaded(tmp_path):
    for version in "12":
        (tmp_path / version).mkdir()
    manager = ModelManager(
        [ModelConfig("m", str(tmp_path))], lambda name, version, path: Model(name, version)
    )
    manager.load(kept=[("m", 1)])
    assert manager.available() == [("m", 2)]


MANAGERS = """
from absl import flags
from convnlp.serving import assembly
flags.FLAGS(["serve", "--model_name=m", "--model_base_path=none"])
print(assembly._manager(None, None).names(), assembly._manager(None, []).names())
"""


@pytest.mark.multiprocess
def test_a_worker_in_the_place_of_a_dead_one_serves_nothing_if_a_reload_left_nothing():
    """The models of the flags are those of a server that has had no reload."""
    done = run_code(MANAGERS, timeout=400)
    assert done.stdout == "['m'] []\n", done.stderr


THREADS = """
import os, sys
import numpy as np
from convnlp.serving.core.servable import Servable
servable = Servable("affine", 1, sys.argv[1], num_runs=1)
(x,) = servable.signatures["serving_default"].inputs.values()
(y,) = servable.signatures["serving_default"].outputs.values()
servable.run({x.name: np.ones(1, np.float32)}, (y.name,))
print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.multiprocess
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="only Linux lists its threads")
def test_a_worker_has_the_threads_that_the_environment_gives_it(model_folder, monkeypatch):
    path, found = str(model_folder / "affine" / "1"), []
    for count in ("1", "41"):
        monkeypatch.setenv("TF_NUM_INTEROP_THREADS", count)
        found.append(int(run_code(THREADS, path, timeout=400).stdout))
    assert found[1] == found[0] + 40


@pytest.mark.parametrize("kind", ["page", "reload"])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_an_answer_reaches_who_asked_and_not_who_takes_its_place(kind, is_replaced):
    """Worker 1 asks and may die; the process in its place has no such question, and could not go on."""
    supervisor = Supervisor(2, [], 1.0, 0, 0)
    ends = [socket.socketpair() for _ in range(3)]
    asker, other, successor = (
        _Member(number, 0, Channel(ours), has_begun=True, is_ready=True)
        for number, (ours, _) in zip((1, 2, 1), ends, strict=True)
    )
    supervisor._members = {1: asker, 2: other}
    for member in (asker, other, successor):
        supervisor._selector.register(member.channel, selectors.EVENT_READ, member)
    if kind == "page":
        supervisor._asks_page(asker, {"question": 5})
    else:
        supervisor._asks_reload(asker, {"question": 5, "configs": []})
        supervisor._begin_pass()
    if is_replaced:
        supervisor._members[1] = successor
    if kind == "page":
        for member in (supervisor._members[1], other):
            supervisor._has_page(member, {"question": 1, "page": ""})
    else:
        for number in (1, 2):
            done = {"served": [], "error": None, "adopted": True}
            supervisor._is_through(supervisor._members[number], done)
    sent = _received(ends[2 if is_replaced else 0])
    supervisor._selector.close()
    answers = [message["question"] for message in sent if message["do"] == "answer"]
    assert answers == ([] if is_replaced else [5])


def test_a_worker_that_does_not_end_after_closing_its_channel_is_killed(monkeypatch):
    monkeypatch.setattr("convnlp.serving.workers.supervisor._GRACE_SECONDS", 0.1)
    ours, its = socket.socketpair()
    process = subprocess.Popen(["sleep", "600"])
    its.close()
    supervisor = Supervisor(2, [], 1.0, 0, 0)
    member = supervisor._members[1] = _Member(1, process.pid, Channel(ours), has_begun=True, is_ready=True)
    supervisor._selector.register(member.channel, selectors.EVENT_READ, member)
    supervisor._was_ready = True
    supervisor._exchange(member)
    supervisor._selector.close()
    assert supervisor._ends == {1: (process.pid, "was ended by SIGKILL")}


@pytest.mark.parametrize(("num_put_off", "code"), [(0, None), (1, None), (2, None), (3, "UNAVAILABLE")])
def test_a_reload_is_answered_when_all_serve_what_was_put_off(num_put_off, code):
    """Worker 2 has looked before a version was there, worker 1 afterwards."""
    supervisor = Supervisor(2, [], 1.0, 0, 0)
    ends = [socket.socketpair() for _ in range(2)]
    members = [
        _Member(number, 0, Channel(ours), has_begun=True, is_ready=True)
        for number, (ours, _) in zip((1, 2), ends, strict=True)
    ]
    supervisor._members = dict(enumerate(members, 1))
    for member in members:
        supervisor._selector.register(member.channel, selectors.EVENT_READ, member)
    supervisor._asks_reload(members[0], {"question": 5, "configs": []})
    served = []
    for number in range(num_put_off + 1):
        supervisor._begin_pass()
        if supervisor._pass is None:
            break
        wait = {"key": ["m", 2], "error": None}
        supervisor._has_met(members[0], wait)
        if number < num_put_off:
            supervisor._is_through(members[1], {"served": [], "error": None, "adopted": True})
        else:
            supervisor._has_met(members[1], wait)
            served = [["m", 2]]
            supervisor._is_through(members[1], {"served": served, "error": None, "adopted": True})
        supervisor._is_through(members[0], {"served": served, "error": None, "adopted": True})
    supervisor._begin_pass()
    assert supervisor._pass is None  # nothing is left to do
    supervisor._selector.close()
    sent = _received(ends[0])
    verdicts = [message["verdict"] for message in sent if message["do"] == "decided"]
    assert verdicts == ["put_off"] * num_put_off + ["go"] * (code is None)
    assert [message["do"] for message in sent].count("answer") == 1
    error = sent[-1]["error"]
    assert (error and error[0]) == code


def _received(pair):
    """The messages that a worker has got."""
    ours, its = pair
    ours.shutdown(socket.SHUT_WR)
    with its.makefile("rb") as lines:
        return [json.loads(line) for line in lines]


def test_a_worker_follows_after_a_configuration_that_there_cannot_be(tmp_path):
    """Two models of one name; the worker has to say so, as the others wait for it."""
    (tmp_path / "1").mkdir()
    config = {"name": "m", "base_path": str(tmp_path), "num_latest": 1, "versions": [], "labels": {}}
    manager = ModelManager(
        [ModelConfig("m", str(tmp_path))], lambda name, version, path: Model(name, version)
    )
    manager.load()
    ours, its = socket.socketpair()
    ours.settimeout(60)
    worker = Worker(1, its)
    worker.follow(manager, read_configs=None)
    with ours.makefile("rb") as messages:
        assert json.loads(messages.readline())["served"] == [["m", 1]]
        for configs, error, adopted in [
            (
                [config, config],
                ["INVALID_ARGUMENT", "models must have different names, got ['m', 'm']"],
                False,
            ),
            ([config], None, True),
        ]:
            worker._receive({"do": "reload", "configs": configs})
            done = json.loads(messages.readline())
            assert (done["type"], done["error"], done["adopted"]) == ("done", error, adopted)


@pytest.mark.parametrize("failing", [(os, "fork"), (socket, "socketpair")], ids=lambda each: each[1])
@pytest.mark.parametrize("was_ready", [True, False])
def test_a_worker_that_cannot_be_forked_ends_only_a_server_that_begins(
    was_ready, failing, monkeypatch, capsys
):
    """Another process may have taken all memory for a moment, and the other workers serve."""
    supervisor = Supervisor(2, [], 1.0, 0, 0)
    supervisor._was_ready = was_ready
    supervisor._starts = {1: 0.0}

    def fail():
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(*failing, fail)
    assert supervisor._fork(1, ()) is None
    supervisor._selector.close()
    line = "worker 1 cannot be started: resource temporarily unavailable\n"
    assert capsys.readouterr().err == (line if was_ready else f"error: {line}")
    assert list(supervisor._starts) == ([1] if was_ready else [])
    assert (supervisor._kill_at is None) == was_ready
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & set(SIGNALS)
