"""A server that says what a test tells it to, byte by byte: what no HTTP library would send."""

import contextlib
import json
import socket
import struct
import threading


class ScriptedServer:
    """Answers each connection with what `answer(request)` returns, and remembers the requests.

    Attributes:
        url: str.
        requests: list of the JSON documents of the requests, None for a GET.
        answer: Callable from such a document to the bytes of a response; none at all closes the connection,
            and None resets it.
    """

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.requests = []
        self.answer = lengths
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        self._listener.close()

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                self._talk(connection)

    def _talk(self, connection):
        if connection.recv(1, socket.MSG_PEEK) == b"\x16":  # a TLS handshake
            connection.sendall(self.answer(None))
            return
        file = connection.makefile("rb")
        length = 0
        while (line := file.readline()).strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        self.requests.append(json.loads(file.read(length)) if length else None)
        file.close()
        response = self.answer(self.requests[-1])
        if response is None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            connection.sendall(response)


def http(status, body, *headers):
    """The bytes of a response; a body that is no bytes is sent as JSON."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def lengths(request):
    """The lengths of the texts as predictions; a text "bad" is refused."""
    if "bad" in request["instances"]:
        return http(400, {"error": "no bad texts, please"})
    return http(200, {"predictions": [len(text) for text in request["instances"]]})
