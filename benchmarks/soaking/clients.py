"""Clients that send the server requests at a steady pace, over REST and gRPC, and check every answer."""

import contextlib
import http.client
import json
import random
import socket
import threading
import time

MODEL = "affine"
PATH = f"/v1/models/{MODEL}:predict"
ANSWER_SECONDS = 60.0


def numbers(draw, count):
    """Returns numbers whose halves, plus a version, are exact in float32."""
    return [draw.randrange(-4000, 4000) / 4 for _ in range(count)]


def body_of(xs, signature="serving_default"):
    """Returns the body of a request, as bytes."""
    return json.dumps({"signature_name": signature, "instances": xs}).encode()


def request_of(xs, signature="serving_default"):
    """Returns a whole request, as bytes."""
    body = body_of(xs, signature)
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (
        PATH.encode(),
        len(body),
        body,
    )


def read_answer(connection):
    """Reads an answer from a socket.

    Returns:
        (status, content): int and bytes; (0, b"") if the connection ended before there was one.
    """
    answer = http.client.HTTPResponse(connection)
    try:
        answer.begin()
        return answer.status, answer.read()
    except (http.client.HTTPException, ConnectionError):
        return 0, b""
    finally:
        answer.close()


def values_of(status, content):
    """Returns the contents of a REST answer: the numbers, or the text if there are none."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        if status == 200:
            return json.loads(content)["predictions"]
    return content.decode("utf-8", "replace")


class Clients:
    """Threads that send requests at a steady pace, each on its own connection.

    Args:
        port: int, of REST.
        grpc_port: int.
        ledger: `Ledger`.
        seed: int.
        num_rest, num_grpc: int, threads.
        seconds_between: float, mean pause between an answer and the next request.
    """

    def __init__(self, port, grpc_port, ledger, seed, num_rest=4, num_grpc=2, seconds_between=0.1):
        self._ports = port, grpc_port
        self._ledger, self._seconds_between = ledger, seconds_between
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(
                target=target, args=(random.Random(f"{seed}/{target.__name__}/{i}"),), daemon=True
            )
            for target, count in ((self._ask_rest, num_rest), (self._ask_grpc, num_grpc))
            for i in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def close(self):
        """Ends the threads and their connections."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _pause(self, draw):
        return self._ended.wait(self._seconds_between * draw.uniform(0.5, 1.5))

    def _ask_rest(self, draw):
        connection = None
        while not self._pause(draw):
            xs = numbers(draw, draw.choice([1, 1, 1, 8, 64]))
            sent = time.monotonic()
            try:
                connection = connection or socket.create_connection(
                    ("127.0.0.1", self._ports[0]), ANSWER_SECONDS
                )
                connection.sendall(request_of(xs))
                status, content = read_answer(connection)
            except OSError as error:
                status, content = 0, str(error).encode()
            self._ledger.check("rest", xs, status, values_of(status, content), sent, time.monotonic())
            if status != 200 and connection:
                connection.close()
                connection = None
        if connection:
            connection.close()

    def _ask_grpc(self, draw):
        from convnlp.serving.client import RequestError, connect

        client = connect(f"grpc://127.0.0.1:{self._ports[1]}", ANSWER_SECONDS, retries=0)
        while not self._pause(draw):
            xs = numbers(draw, draw.choice([1, 8]))
            sent = time.monotonic()
            try:
                status, values = "OK", client.predict(MODEL, xs)
            except RequestError as error:
                status, values = error.status, str(error)
            self._ledger.check("grpc", xs, status, values, sent, time.monotonic())
        client.close()
