"""The load generator, against a server that counts what it is sent."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks.load_generator import generate, steady_rate


class Counter(BaseHTTPRequestHandler):
    """Answers in two pieces, every third time with an error."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append((self.path, json.loads(body)))
        self.send_response(500 if len(self.server.bodies) % 3 == 0 and self.server.fails else 200)
        self.send_header("Content-Length", "5000")
        self.end_headers()
        self.wfile.write(b"x" * 2000)
        self.wfile.flush()
        self.wfile.write(b"x" * 3000)

    def log_message(self, *arguments):
        pass


@pytest.mark.parametrize("fails", [False, True])
def test_every_answer_is_read_whole_and_counted(fails):
    with ThreadingHTTPServer(("127.0.0.1", 0), Counter) as server:
        server.bodies, server.fails = [], fails
        threading.Thread(target=server.serve_forever, daemon=True).start()
        report = generate(server.server_port, "/path", b'{"a": 1}', clients=3, seconds=0.5)
        server.shutdown()
    assert set(map(str, server.bodies)) == {"('/path', {'a': 1})"}
    # One request of each client is under way when the time is over.
    assert len(server.bodies) - report["requests"] == 3
    assert abs(report["failures"] - (report["requests"] // 3 if fails else 0)) <= 3
    assert 0 < report["median_ms"] <= report["p99_ms"]


def test_the_rate_counts_from_when_each_client_has_had_an_answer():
    start = [("a", 11.0), ("a", 11.5), ("b", 12.0)]
    assert steady_rate([*start, ("a", 12.0), ("b", 12.25), ("a", 12.5)], clients=2, started=10.0) == 3 / 0.5
    assert steady_rate(start, clients=2, started=10.0) == 3 / 2.0
    assert steady_rate(start, clients=3, started=10.0) == 3 / 2.0
