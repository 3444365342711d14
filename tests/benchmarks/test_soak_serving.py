"""What the serving soak takes for right, and its disturbances, on the server and on a bad one."""

import contextlib
import random
import socket
import threading
import time

import numpy as np
import pytest

from benchmarks.soaking import disturbances, serving, versions
from benchmarks.soaking.ledger import Ledger
from convnlp.serving.core.errors import ServingError
from convnlp.serving.core.loader import Loader
from convnlp.serving.core.metrics import Metrics
from tests.run_program import Program


def test_an_answer_must_be_of_a_version_of_its_time():
    ledger = Ledger()
    ledger.allow(1)
    first = time.monotonic()
    ledger.allow(2)  # on its way
    both = time.monotonic()
    ledger.end(1)
    second = time.monotonic()
    assert ledger.may_answer(first, first) == [1]
    assert ledger.may_answer(first, both) == ledger.may_answer(both, second) == [1, 2]
    assert ledger.may_answer(second, second) == [2]
    ledger.allow(1)  # going back
    ledger.end(2)
    last = time.monotonic()
    assert ledger.may_answer(last, last) == [1]
    for values, is_right in (([1.5, 2.0], True), ([2.5, 3.0], False), ([1.5], False), ("no", False)):
        num_before = len(ledger.problems)
        ledger.check("rest", [1.0, 2.0], 200, values, last, last)
        assert (len(ledger.problems) == num_before) is is_right
    assert ledger.counts == {"rest: right": 1, "rest: wrong": 3}


def test_a_refusal_is_allowed_in_a_crowd_only():
    ledger = Ledger()
    before = time.monotonic()
    ledger.begin_crowd()
    during = time.monotonic()
    ledger.end_crowd()
    after = time.monotonic()
    for sent, received, status, is_allowed in (
        (before, before, 429, False),
        (before, during, 429, True),
        (during, after, 503, True),
        (during, during, "RESOURCE_EXHAUSTED", True),
        (during, during, 500, False),
        (during, during, 0, False),
        (after, after, 503, False),
    ):
        num_before = len(ledger.problems)
        ledger.check("rest", [1.0], status, "refused", sent, received)
        assert (len(ledger.problems) == num_before) is is_allowed


@pytest.mark.parametrize("kind", [None, *versions.BROKEN])
def test_versions_are_sound_or_broken_as_they_should_be(tmp_path, kind):
    """As the server's own loader sees them."""
    path = tmp_path / "3"
    versions.save(path, 3)
    loader = Loader(Metrics())
    if kind is None:
        servable = loader("affine", 3, str(path))
        signature = servable.signatures["serving_default"]
        feeds = {signature.inputs["x"].name: np.float32([2.0, -1.25])}
        (found,) = servable.run(feeds, (signature.outputs["y"].name,))
        assert found.tolist() == [versions.answer(3, 2.0), versions.answer(3, -1.25)] == [4.0, 2.375]
        servable.close()
        return
    breaks, says = versions.BROKEN[kind]
    breaks(path, random.Random(1))
    with pytest.raises(ServingError, match=says):
        loader("affine", 3, str(path))


def test_a_version_that_is_pushed_slowly_is_whole(tmp_path):
    source, target = tmp_path / "source", tmp_path / "versions" / "1"
    (source / "variables").mkdir(parents=True)
    for name in ("saved_model.pb", "variables/variables.index", "SHA256SUMS"):
        (source / name).write_text(name)
    versions.push_slowly(source, target, 0.0)
    assert not source.exists()
    assert (target / "variables" / "variables.index").read_text() == "variables/variables.index"
    assert len(list(target.rglob("*.*"))) == 2


class Silent:
    """A server that takes everything and never answers, or answers one thing to all."""

    def __init__(self, answer=b""):
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._ended = False
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self):
        kept = []
        while not self._ended:
            with contextlib.suppress(OSError):
                connection, _ = self._listener.accept()
                kept.append(connection)
                connection.sendall(self._answer)

    def close(self):
        self._ended = True
        self._listener.close()


OK = b'HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n{"predictions": [-1]}'


@pytest.mark.parametrize(
    ("name", "answer"),
    [("slow_head", b""), ("slow_head", OK), ("slow_reader", b""), ("malformed", OK), ("crowd", OK)],
)
def test_a_bad_server_is_noticed(tmp_path, monkeypatch, name, answer):
    monkeypatch.setattr(disturbances, "PATIENCE_SECONDS", 0.5)
    server = Silent(answer)
    scene = disturbances.Scene(server.port, tmp_path, Ledger())
    scene.ledger.allow(1)
    disturbances.DISTURBANCES[name](scene, random.Random(0))
    server.close()
    assert scene.ledger.problems


def test_what_stays_open_at_rest_is_a_problem():
    before = {"threads": 10, "files": 20, "sockets": 3, "memory_mb": 100.0}
    assert serving.problems_of_rest(before, {**before, "memory_mb": 120.0, "threads": 13}) == []
    assert len(serving.problems_of_rest(before, {**before, "threads": 14})) == 1
    (problem,) = serving.problems_of_rest(before, {**before, "sockets": 4})
    assert problem == "at rest there were 3 sockets after the first round, but 4 at the end"


def test_a_traceback_in_the_log_is_a_problem():
    assert serving.problems_of_log("model affine version 4 does not load: x\n") == []
    assert len(serving.problems_of_log("ERROR\nTraceback (most recent call last):\n  File\n")) == 1


def start_forked(folder, port, grpc_port, log):
    """The server as `serving.start_server` starts it, forked from a process that has TensorFlow."""
    flags = serving.server_flags(folder, port, grpc_port)
    return Program("serving.server", *flags, stdout=log, stderr=log)


CHOICE = (
    "new_version",
    "going_back",
    "damaged_weights",
    "wrong_signature",
    "abandoned",
    "malformed",
    "crowd",
)


@pytest.mark.slow
@pytest.mark.serving
@pytest.mark.multiprocess
def test_the_short_form(tmp_path):
    outcome = serving.soak(tmp_path / "soak", 0, 0.1, seed=0, names=CHOICE, started=start_forked)
    assert outcome.all_problems() == []
    assert {name for _, name in outcome.events} == set(CHOICE)
    assert len(outcome.events) >= 2 * len(CHOICE)
    assert outcome.counts["rest: right"] > 0
    assert outcome.counts["grpc: right"] > 0
    assert outcome.counts["crowd: right"] > 0
    assert set(outcome.counts) <= {
        *("rest: right", "grpc: right", "crowd: right", "crowd: refused, 429", "crowd: refused, 503"),
        *("rest: refused, 429", "rest: refused, 503", "grpc: refused, RESOURCE_EXHAUSTED"),
        *(
            "grpc: refused, UNAVAILABLE",
            *(f"malformed: {code}" for _, code in disturbances.MALFORMED.values()),
        ),
    }


@pytest.mark.slow
@pytest.mark.serving
@pytest.mark.multiprocess
def test_the_form_of_five_minutes(tmp_path):
    """All disturbances, for five minutes."""
    outcome = serving.soak(tmp_path / "soak", 5, 1.0, seed=1, started=start_forked)
    assert outcome.all_problems() == []
    assert {name for _, name in outcome.events} == set(disturbances.DISTURBANCES)
