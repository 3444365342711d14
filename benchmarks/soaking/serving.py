"""The soak of the local server: steady clients, and meanwhile disturbances of versions and of requests.

Two threads disturb the server, one with versions and one with requests. After the first round of all
disturbances, and at the end, all clients disconnect. The resources that the server then has open are
compared, since at rest they do not change.
"""

import contextlib
import dataclasses
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

from benchmarks.soaking import versions
from benchmarks.soaking.clients import MODEL, Clients
from benchmarks.soaking.disturbances import (
    DISTURBANCES,
    MAX_BODY_BYTES,
    MAX_CONCURRENT_REQUESTS,
    READ_TIMEOUT_SECONDS,
    REQUESTS,
    VERSIONS,
    WRITE_TIMEOUT_SECONDS,
    Scene,
)
from benchmarks.soaking.ledger import Ledger
from benchmarks.soaking.processes import Sampler, sample
from benchmarks.soaking.training_run import ROOT

_START_SECONDS = 600.0
_REST_SECONDS = 5.0  # without a change, before the server counts as at rest
_REST_PATIENCE_SECONDS = 90.0
_DRAIN_SECONDS = 60.0
# Allowed growth after the first round: pools add a thread when two requests first need one at the same time.
_MORE = {"threads": 3, "files": 0, "sockets": 0}


@dataclasses.dataclass
class Outcome:
    """The result of a soak.

    Attributes:
        events: list of (seconds, name), the disturbances.
        rows: list of dict, samples of the server.
        counts: dict of str to int, answers by client and result.
        rests: list of two dicts, `sample` at rest: after the first round, and at the end.
        seconds: float, under load.
        problems: list of str.
    """

    events: list
    rows: list
    counts: dict
    rests: list
    seconds: float
    problems: list

    def all_problems(self):
        """Returns everything unexpected."""
        return self.problems


def free_port():
    """Returns a port on which nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def server_flags(folder, port, grpc_port):
    """Returns the flags of a local server of the versions in a directory."""
    return [
        *(f"--rest_api_port={port}", f"--port={grpc_port}", f"--model_name={MODEL}"),
        *(f"--model_base_path={folder}", "--enable_batching"),
        f"--batching_parameters_file={ROOT / 'serving' / 'batching.config'}",
        *("--file_system_poll_wait_seconds=1", "--load_retry_interval_micros=1000000"),
        f"--rest_api_read_timeout_in_ms={1000 * READ_TIMEOUT_SECONDS:.0f}",
        f"--rest_api_write_timeout_in_ms={1000 * WRITE_TIMEOUT_SECONDS:.0f}",
        f"--max_concurrent_requests={MAX_CONCURRENT_REQUESTS}",
        f"--max_body_bytes={MAX_BODY_BYTES}",
        f"--drain_timeout_in_ms={1000 * _DRAIN_SECONDS:.0f}",
    ]


def start_server(folder, port, grpc_port, log):
    """Starts a local server of the versions in a directory; returns the process."""
    command = [sys.executable, "-m", "serving.server", *server_flags(folder, port, grpc_port)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)


@contextlib.contextmanager
def running(folder, port, grpc_port, log_path, started=start_server):
    """Runs the server until the block ends; yields its process when it is ready."""
    with open(log_path, "w", encoding="utf-8") as log:
        process = started(folder, port, grpc_port, log)
        try:
            end = time.monotonic() + _START_SECONDS
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"the server did not start; see {log_path}")
                time.sleep(0.2)
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(f"GET /v1/models/{MODEL} HTTP/1.0\r\n\r\n".encode())
        return b" 200 " in connection.recv(100)
    return False


def soak(folder, minutes, seconds_between, seed, names=tuple(DISTURBANCES), started=start_server, say=print):
    """Puts the server under load and disturbs it.

    Args:
        folder: pathlib.Path, for all files.
        minutes: float, under load. Each disturbance happens at least twice.
        seconds_between: float, mean pause of each thread that disturbs.
        seed: int, decides the order of the disturbances, their details and the requests.
        names: names of disturbances.
        started: as for `running`.
        say: function of a str, called with each disturbance and its problems.

    Returns:
        `Outcome`.
    """
    shutil.rmtree(folder, ignore_errors=True)
    ledger = Ledger()
    ports = free_port(), free_port()
    scene = Scene(ports[0], folder / "versions", ledger, latest=1, seconds_between=seconds_between)
    scene.folder.mkdir(parents=True)
    (folder / "prepared").mkdir()
    ledger.allow(1)
    versions.push(scene.prepare(1), scene.folder / "1")
    log_path, events, rests = folder / "server.log", [], []
    with running(scene.folder, *ports, log_path, started) as process:
        began = time.monotonic()
        sampler = Sampler(max(0.5, min(5.0, minutes)), began)
        sampler.watch(process.pid)
        try:
            # One round of everything; then at least another one, for as long as there is time.
            for least_minutes in (0.0, minutes):
                clients = Clients(*ports, ledger, f"{seed}/{least_minutes}")
                _disturb(scene, names, seed, began, 60 * least_minutes, events, say)
                clients.close()
                rests.append(_at_rest(process.pid, ledger))
            seconds = time.monotonic() - began
        finally:
            sampler.close()
        if process.poll() is not None:
            ledger.note(f"the server ended by itself with exit code {process.poll()}; see {log_path}")
        process.send_signal(signal.SIGTERM)
        try:
            if code := process.wait(2 * _DRAIN_SECONDS):
                ledger.note(f"the server ended with exit code {code} after SIGTERM")
        except subprocess.TimeoutExpired:
            ledger.note("the server did not end after SIGTERM")
    ledger.problems += problems_of_rest(*rests) + problems_of_log(log_path.read_text(encoding="utf-8"))
    return Outcome(events, sampler.rows, dict(ledger.counts), rests, seconds, ledger.problems)


def _disturb(scene, names, seed, began, least_seconds, events, say):
    """Lets two threads disturb the server until each has done its round and the time is over."""

    def work(table):
        draw = random.Random(f"{seed}/{least_seconds}/{sorted(table)}")
        chosen = [name for name in table if name in names]
        is_first = True
        while chosen and (is_first or time.monotonic() < began + least_seconds):
            for name in draw.sample(chosen, len(chosen)):
                if not is_first and time.monotonic() > began + least_seconds:
                    break
                time.sleep(scene.seconds_between * draw.uniform(0.5, 1.5))
                events.append((round(time.monotonic() - began, 1), name))
                num_before = len(scene.ledger.problems)
                try:
                    table[name](scene, draw)
                except Exception as error:  # a failure is a finding, and must not end the others
                    scene.ledger.note(f"{name}: {type(error).__name__}: {error}")
                say(f"{name} {scene.ledger.problems[num_before:] or ''}".strip())
            is_first = False

    threads = [threading.Thread(target=work, args=(table,)) for table in (VERSIONS, REQUESTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _at_rest(pid, ledger):
    """Returns the server's resources without requests, once they have not changed for a while."""
    end = time.monotonic() + _REST_PATIENCE_SECONDS
    last, since = None, time.monotonic()
    while time.monotonic() < end:
        found = sample(pid)
        if found is None:
            return {}
        counts = {name: found[name] for name in ("threads", "files", "sockets")}
        if counts != last:
            last, since = counts, time.monotonic()
        elif time.monotonic() > since + _REST_SECONDS:
            return found
        time.sleep(0.5)
    ledger.note(f"the server did not come to rest: {last}")
    return found


def problems_of_rest(before, after):
    """Returns what has grown at rest between the first round and the end: a list of str."""
    return [
        f"at rest there were {before[name]} {name} after the first round, but {after[name]} at the end"
        for name, more in _MORE.items()
        if before and after and after[name] > before[name] + more
    ]


def problems_of_log(text):
    """Returns lines that must not be in the log of a server: a list of str."""
    lines = text.splitlines()
    return [
        f"in the server's log: {line}"
        for line in lines
        if line.startswith("Traceback") or "Fatal Python error" in line
    ]
