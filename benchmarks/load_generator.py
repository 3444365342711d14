"""Sends requests to a server as fast as it answers, from a process of its own.

    python -m benchmarks.load_generator --port=8501 --body=request.json --clients=32 --seconds=10

Every client is a connection that sends its next request when it has received the answer to the last one.
The rate counts from the moment when each client has had its first answer, so that short loads give the same
rate as long ones. At the end, all outstanding answers are awaited, so that the next measurement has the
machine for itself. All clients share one thread with plain sockets: some 30 microseconds of CPU per
request, mostly in the kernel. The program needs only the standard library, so it starts at once. It prints
one line of JSON.
"""

import argparse
import json
import selectors
import socket
import statistics
import time


def generate(port, path, body, clients, seconds):
    """Runs the load.

    Args:
        port: int, on 127.0.0.1.
        path: str.
        body: bytes, the body of every request.
        clients: int.
        seconds: float.

    Returns:
        dict: requests per second, latencies in ms, the number of answers whose status was not 200, ...
    """
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    request = head.encode() + body
    selector = selectors.DefaultSelector()
    sent, latencies, answers, failures = {}, [], [], 0
    for _ in range(clients):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(connection, selectors.EVENT_READ)
        connection.sendall(request)
        sent[connection] = time.perf_counter()
    started = time.perf_counter()
    cpu = time.process_time()
    while (now := time.perf_counter()) < started + seconds:
        for key, _ in selector.select(1):
            connection = key.fileobj
            failures += not _read_answer(connection).startswith(b"HTTP/1.1 200 ")
            now = time.perf_counter()
            latencies.append(1000 * (now - sent[connection]))
            answers.append((key.fd, now))
            connection.sendall(request)
            sent[connection] = now
    own_cpu_share = (time.process_time() - cpu) / (now - started)
    for connection in sent:
        _read_answer(connection)
        connection.close()
    percentiles = statistics.quantiles(latencies, n=100, method="inclusive")
    return {
        "requests_per_second": steady_rate(answers, clients, started),
        "median_ms": statistics.median(latencies),
        "p99_ms": percentiles[98],
        "requests": len(latencies),
        "failures": failures,
        "own_cpu_share": own_cpu_share,
    }


def steady_rate(answers, clients, started):
    """Returns answers per second, counted from when each client has had its first answer.

    If no answers came after that, all answers count.

    Args:
        answers: list of (client, seconds), in the order of arrival; not empty.
        clients: int.
        started: float, seconds.
    """
    seen = set()
    for count, (client, at) in enumerate(answers, 1):
        seen.add(client)
        if len(seen) == clients and count < len(answers):
            return (len(answers) - count) / (answers[-1][1] - at)
    return len(answers) / (answers[-1][1] - started)


def _read_answer(connection):
    """Reads and returns one whole answer, by its Content-Length."""
    received = connection.recv(1 << 16)
    while (end := received.find(b"\r\n\r\n")) < 0:
        received += _more(connection)
    length = int(received[:end].lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(received) < end + 4 + length:
        received += _more(connection)
    return received


def _more(connection):
    piece = connection.recv(1 << 16)
    if not piece:
        raise ConnectionError("the server closed the connection")
    return piece


def main():
    """Runs the load that the command line describes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load_generator")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", default="/v1/models/default:predict")
    parser.add_argument("--body", required=True, help="file with the body of every request")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=10.0)
    flags = parser.parse_args()
    with open(flags.body, "rb") as file:
        body = file.read()
    print(json.dumps(generate(flags.port, flags.path, body, flags.clients, flags.seconds)))


if __name__ == "__main__":
    main()
