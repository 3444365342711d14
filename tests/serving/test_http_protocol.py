"""HTTP at its edges, over real sockets, before an application that repeats what it is sent."""

import json
import socket

import pytest

from tests.serving.server_thread import serving


async def echo(scope, receive, send):
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    answer = json.dumps([scope["method"], scope["target"], body.decode()]).encode()
    headers = [(b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


@pytest.fixture(scope="module")
def port():
    with serving(echo) as port:
        yield port


def exchange(port, *pieces):
    """Sends the pieces and returns all that comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for piece in pieces:
            connection.sendall(piece)
        received = b""
        while more := connection.recv(1 << 16):
            received += more
    return received


def first(port, *pieces):
    """The status and, where it is the application's, the document of the first answer."""
    head, _, rest = exchange(port, *pieces).partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    length = next(int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length"))
    body = rest[:length]
    return lines[0].decode(), json.loads(body) if body.startswith(b"[") else body.decode()


CLOSE = b"Connection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "status", "answer"),
    [
        (b"GET /a?b#c HTTP/1.1\r\nHost: x\r\n" + CLOSE, 200, ["GET", "/a?b#c", ""]),
        (b"GET http://host:80/a%2f HTTP/1.1\r\n" + CLOSE, 200, ["GET", "/a%2f", ""]),
        (b"GET //host/a HTTP/1.1\r\n" + CLOSE, 200, ["GET", "/a", ""]),
        (b"GET /a%zz HTTP/1.1\r\n" + CLOSE, 200, ["GET", None, ""]),
        (b"GET /a|b HTTP/1.1\r\n" + CLOSE, 200, ["GET", None, ""]),
        (b"OPTIONS * HTTP/1.1\r\n" + CLOSE, 200, ["OPTIONS", "*", ""]),
        (b"HEAD /a HTTP/1.1\r\n" + CLOSE, 200, ["HEAD", "/a", ""]),
        (
            b"PATCH /a HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
            200,
            ["PATCH", "/a", "hi"],
        ),
        (b"POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi", 200, ["POST", "/", "hi"]),
        (
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + CLOSE + b"1\r\nh\r\n1\r\ni\r\n0\r\n\r\n",
            200,
            ["POST", "/", "hi"],
        ),
        (
            b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n" + CLOSE + b"hi",
            200,
            ["POST", "/", "hi"],
        ),
        (b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi and more", 200, ["POST", "/", "hi"]),
        (b"POST / HTTP/1.1\r\nContent-Length: two\r\n\r\nhi", 400, None),
        (b"POST / HTTP/1.1\r\nContent-Length: -2\r\n\r\nhi", 400, None),
        (b"hello\r\n\r\n", 400, None),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, None),
        (b"GET /\r\n\r\n", 200, ["GET", None, ""]),
        (b"get / HTTP/1.1\r\n\r\n", 501, None),
        (b"BREW / HTTP/1.1\r\n\r\n", 501, None),
    ],
)
def test_one_request(port, sent, status, answer):
    line, got = first(port, sent)
    assert line.split()[1] == str(status)
    assert line.startswith("HTTP/1.0" if b"HTTP/1.0" in sent else "HTTP/1.1")
    if answer is None:
        assert got.startswith(f"<HTML><HEAD>\n<TITLE>{line.split(' ', 1)[1]}</TITLE>")
    else:
        assert got == answer


def test_a_body_that_waits_is_asked_for(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"hi")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")


def test_requests_follow_each_other_on_one_connection(port):
    one = b"POST /%d HTTP/1.1\r\nContent-Length: 1\r\n\r\n%d"
    answers = exchange(port, one % (1, 1), one % (2, 2) + one % (3, 3), b"GET /4 HTTP/1.1\r\n" + CLOSE)
    places = [answers.index(b'"/%d"' % number) for number in range(1, 5)]
    assert places == sorted(places)
    assert answers.count(b"HTTP/1.1 200 OK") == 4


def test_a_head_without_end_is_cut_off(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nA: ")
        with pytest.raises(ConnectionError):
            connection.sendall(b"a" * 2**26)
