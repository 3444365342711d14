"""What a server must withstand: one function per disturbance, in the table `DISTURBANCES` by name.

Each is called with a `Scene` and a random.Random, and returns when its effects are over; it notes anything
unexpected in the scene's ledger.
"""

import contextlib
import dataclasses
import http.client
import json
import pathlib
import re
import select
import shutil
import socket
import struct
import threading
import time

from benchmarks.soaking import versions
from benchmarks.soaking.clients import (
    ANSWER_SECONDS,
    MODEL,
    PATH,
    body_of,
    numbers,
    read_answer,
    request_of,
    values_of,
)

READ_TIMEOUT_SECONDS = 3.0  # of the server, for a whole head and for each pause in a body
WRITE_TIMEOUT_SECONDS = 3.0
MAX_CONCURRENT_REQUESTS = 24  # of the server
MAX_BODY_BYTES = 1 << 20
PATIENCE_SECONDS = 180.0
_CROWD = 200
_ALL_GONE_SECONDS = 3.0


@dataclasses.dataclass
class Scene:
    """The server and what it serves.

    Attributes:
        port: int, of REST.
        folder: pathlib.Path, where the server looks for versions.
        ledger: `Ledger`.
        latest: int, the newest version that was added.
        seconds_between: float, mean pause before a disturbance.
        ended: threading.Event, set when the soak is over.
    """

    port: int
    folder: pathlib.Path
    ledger: object
    latest: int = 0
    seconds_between: float = 1.0
    ended: threading.Event = dataclasses.field(default_factory=threading.Event)

    def prepare(self, version):
        """Writes a version outside the directory that the server watches; returns its path."""
        path = self.folder.with_name("prepared") / str(version)
        shutil.rmtree(path, ignore_errors=True)
        versions.save(path, version)
        return path

    def states(self):
        """Returns the state of each version according to the server: a dict of int to (state, message)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", f"/v1/models/{MODEL}")
            listed = json.loads(connection.getresponse().read())["model_version_status"]
        return {int(row["version"]): (row["state"], row["status"]["error_message"]) for row in listed}

    def wait_for(self, holds, what):
        """Waits until `holds(states)`; notes a problem if that takes too long. Returns whether it holds."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not holds(states := self.states()):
            if time.monotonic() > end:
                self.ledger.note(f"{what} was not seen in time: {states}")
                return False
            time.sleep(0.2)
        return True

    def connect(self, receive_bytes=None):
        """Returns a connection; with `receive_bytes`, one that takes little at a time."""
        connection = socket.socket()
        if receive_bytes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(("127.0.0.1", self.port))
        return connection


# Versions.


def new_version(scene, draw):
    """A new version takes over."""
    _take_over(scene, lambda source, target: versions.push(source, target))


def slow_copy(scene, draw):
    """A new version is copied file by file, and takes over when it is complete."""
    _take_over(scene, lambda source, target: versions.push_slowly(source, target, draw.uniform(2, 6)))


def _take_over(scene, push):
    before, version = scene.latest, scene.latest + 1
    source = scene.prepare(version)
    scene.ledger.allow(version)
    push(source, scene.folder / str(version))
    scene.latest = version
    if scene.wait_for(lambda states: states.get(version, ("",))[0] == "AVAILABLE", f"version {version}"):
        scene.ledger.end(before)
        scene.wait_for(lambda states: states[before][0] == "END", f"the end of version {before}")
    for path in scene.folder.iterdir():  # two versions stay, so that one can go back
        if int(path.name) < before:
            shutil.rmtree(path)


def going_back(scene, draw):
    """The directory of the newest version is deleted, and the version before it takes over."""
    before, version = scene.latest - 1, scene.latest
    if not (scene.folder / str(before)).exists():
        new_version(scene, draw)
        before, version = scene.latest - 1, scene.latest
    scene.ledger.allow(before)
    shutil.rmtree(scene.folder / str(version))
    scene.latest = before
    if scene.wait_for(lambda states: states[version][0] == "END", f"the end of version {version}"):
        scene.ledger.end(version)


def all_versions_gone(scene, draw):
    """The directory has no versions for a while, and the last one goes on answering."""
    away = scene.folder.with_name("away")
    away.mkdir()
    for path in list(scene.folder.iterdir()):
        path.rename(away / path.name)
    time.sleep(_ALL_GONE_SECONDS)
    state = scene.states()[scene.latest][0]
    if state != "AVAILABLE":
        scene.ledger.note(f"all_versions_gone: version {scene.latest} is {state}")
    for path in sorted(away.iterdir(), key=lambda path: -int(path.name)):  # the newest one first
        path.rename(scene.folder / path.name)
    away.rmdir()


def _broken(kind):
    breaks, says = versions.BROKEN[kind]

    def disturbance(scene, draw):
        version = scene.latest + 1
        source = scene.prepare(version)
        breaks(source, draw)
        target = scene.folder / str(version)
        versions.push(source, target)

        def is_reported(states):
            return re.search(says, states.get(version, ("", ""))[1])

        scene.wait_for(is_reported, f"a report of {kind} in version {version}")
        state = scene.states()[version][0]
        if state == "AVAILABLE":
            scene.ledger.note(f"{kind}: version {version} is served")
        shutil.rmtree(target)

    disturbance.__doc__ = f"A broken version ({kind}) is reported, and the old one stays in use."
    return disturbance


# Requests.


def abandoned(scene, draw):
    """Clients disconnect: while their answer is computed, or in the middle of their request."""
    connections = [scene.connect() for _ in range(6)]
    for place, connection in enumerate(connections):
        signature = "slow" if place % 2 else "serving_default"
        request = request_of(numbers(draw, 64), signature)
        connection.sendall(request[: draw.randrange(1, len(request))] if place in (2, 4) else request)
    time.sleep(draw.uniform(0.05, 1.0))
    for place, connection in enumerate(connections):
        if place < 3:  # a reset instead of a proper end
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()


def slow_head(scene, draw):
    """A client sends one byte of the head per second: the server answers 408, or closes the connection."""
    request = request_of([1.0])
    with contextlib.closing(scene.connect()) as connection:
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for place in range(len(request)):
                connection.sendall(request[place : place + 1])
                if select.select([connection], [], [], 1.0)[0]:
                    break
                if time.monotonic() > began + PATIENCE_SECONDS:
                    scene.ledger.note("slow_head: the server waits forever")
                    return
            status, _ = read_answer(connection)
            if status not in (408, 0):
                scene.ledger.note(f"slow_head: {status}")
    scene.ledger.count("slow_head: refused")


def slow_body(scene, draw):
    """A client sends the body slowly: in total longer than one pause may be, but it is answered."""
    xs = numbers(draw, 1)
    body = body_of(xs)
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (PATH.encode(), len(body))
    sent = time.monotonic()
    with contextlib.closing(scene.connect()) as connection:
        connection.sendall(head)
        for place in range(len(body)):
            connection.sendall(body[place : place + 1])
            time.sleep(1.5 * READ_TIMEOUT_SECONDS / len(body))
        status, content = read_answer(connection)
    scene.ledger.check("slow_body", xs, status, values_of(status, content), sent, time.monotonic())


def slow_reader(scene, draw):
    """A client keeps sending requests and reads nothing: the server closes the connection."""
    # Small requests with large answers, because the buffers of the two sockets hold some megabytes.
    request = b"GET /v1/models/%s/metadata HTTP/1.1\r\nHost: localhost\r\n\r\n" % MODEL.encode()
    with contextlib.closing(scene.connect(receive_bytes=4096)) as connection:
        connection.setblocking(False)
        poll = select.poll()
        poll.register(connection, select.POLLOUT)
        pending, end = b"", time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            happened = poll.poll(1000)
            if any(mask & (select.POLLERR | select.POLLHUP) for _, mask in happened):
                scene.ledger.count("slow_reader: closed")
                return
            if happened:
                pending = pending or request
                try:
                    pending = pending[connection.send(pending) :]
                except BlockingIOError:
                    continue
                except ConnectionError:
                    scene.ledger.count("slow_reader: closed")
                    return
    scene.ledger.note("slow_reader: the server waits forever")


def _malformed_requests():
    json_head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"

    def post(body, path=PATH):
        return json_head % (path.encode(), len(body)) + body

    return {
        "garbage": (b"\x00\xff\xfe\r\n\r\n", 400),
        "unknown verb": (b"BREW %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % PATH.encode(), 501),
        "half a document": (post(b'{"instances": [1.0'), 400),
        "no document": (post(b""), 400),
        "a text for a number": (post(body_of(["one"])), 400),
        "unknown signature": (post(body_of([1.0], "none")), 400),
        "unknown model": (post(body_of([1.0]), "/v1/models/none:predict"), 404),
        "unknown version": (post(body_of([1.0]), f"/v1/models/{MODEL}/versions/999999:predict"), 404),
        "no path": (b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        "another's name": (b"GET /v1/models/affine HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
        "too many examples": (post(body_of([1.0] * 5000)), 413),
        "too large": (json_head % (PATH.encode(), MAX_BODY_BYTES + 1) + b"[", 413),
    }


MALFORMED = _malformed_requests()


def malformed(scene, draw):
    """Malformed requests get the right status each, and do not affect the requests after them."""
    for name, (request, expected) in draw.sample(sorted(MALFORMED.items()), len(MALFORMED)):
        sent = time.monotonic()
        with contextlib.closing(scene.connect()) as connection:
            connection.sendall(request)
            status, content = read_answer(connection)
        if status == 429 and scene.ledger.may_refuse(sent, time.monotonic()):
            continue
        if status != expected:
            scene.ledger.note(f"malformed, {name}: {status} instead of {expected}: {content[:200]!r}")
        scene.ledger.count(f"malformed: {status}")


def crowd(scene, draw):
    """More requests at once than the server may process: each is answered, or refused with 429 or 503."""
    asked = [numbers(draw, 64) for _ in range(_CROWD)]
    scene.ledger.begin_crowd()
    connections = [scene.connect() for _ in asked]
    sent = time.monotonic()
    for connection, xs in zip(connections, asked, strict=True):
        with contextlib.suppress(ConnectionError):  # noticed when the answer is read
            connection.sendall(request_of(xs))
    for connection, xs in zip(connections, asked, strict=True):
        with contextlib.closing(connection):
            try:
                status, content = read_answer(connection)
            except OSError as error:
                status, content = 0, str(error).encode()
        scene.ledger.check("crowd", xs, status, values_of(status, content), sent, time.monotonic())
    scene.ledger.end_crowd()


VERSIONS = {
    "new_version": new_version,
    "slow_copy": slow_copy,
    "going_back": going_back,
    "all_versions_gone": all_versions_gone,
    **{kind: _broken(kind) for kind in versions.BROKEN},
}
REQUESTS = {
    "abandoned": abandoned,
    "slow_head": slow_head,
    "slow_body": slow_body,
    "slow_reader": slow_reader,
    "malformed": malformed,
    "crowd": crowd,
}
DISTURBANCES = {**VERSIONS, **REQUESTS}
