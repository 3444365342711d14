"""HTTP at its edges, over real sockets, before an application that repeats what it is sent."""

import asyncio
import gc
import json
import shutil
import socket
import subprocess
import threading
import time

import pytest

from convnlp.serving.rest import http_protocol
from convnlp.serving.rest.http_protocol import Timeouts
from tests.serving.server_thread import serving


async def echo(scope, receive, send):
    if scope["target"] == "/large":
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % 2**27)]}
        )
        await send({"type": "http.response.body", "body": bytes(2**27)})
        return
    if scope["target"] == "/early":  # an answer before the body
        await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"3")]})
        await send({"type": "http.response.body", "body": b"no!"})
        return
    if scope["target"] == "/wait":
        WAITING.append(asyncio.current_task())
        await asyncio.sleep(600)
    if scope["target"] == "/slow":
        await asyncio.sleep(1)
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    answer = json.dumps([scope["method"], scope["target"], body.decode()]).encode()
    headers = [(b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


WAITING = []  # the tasks of requests that are not answered


@pytest.fixture(scope="module")
def port():
    with serving(echo) as port:
        yield port


@pytest.fixture(scope="module")
def hurried_port():
    """A server that leaves clients soon."""
    with serving(echo, timeouts=Timeouts(idle=0.3, read=0.3, write=1.0)) as port:
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
        (b"GET http://host HTTP/1.1\r\n" + CLOSE, 200, ["GET", "/", ""]),
        (b"GET //host/a HTTP/1.1\r\n" + CLOSE, 200, ["GET", "//host/a", ""]),
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
    assert line.startswith("HTTP/1.1")
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


def test_http_1_0_knows_no_expectation(port):
    """RFC 9110, 10.1.1: it has no answers before the final one."""
    request = b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(request)
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(100)
        connection.settimeout(60)
        connection.sendall(b"hi")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")


def test_requests_follow_each_other_on_one_connection(port):
    one = b"POST /%d HTTP/1.1\r\nContent-Length: 1\r\n\r\n%d"
    answers = exchange(port, one % (1, 1), one % (2, 2) + one % (3, 3), b"GET /4 HTTP/1.1\r\n" + CLOSE)
    places = [answers.index(b'"/%d"' % number) for number in range(1, 5)]
    assert places == sorted(places)
    assert answers.count(b"HTTP/1.1 200 OK") == 4


def test_a_client_that_asks_without_end_fills_no_memory(port, monkeypatch):
    """What is read at once, 256 KiB, waits for its turn; the rest stays with the client until then."""
    lengths, start = [], http_protocol.Protocol._start_asgi_task
    monkeypatch.setattr(
        http_protocol.Protocol,
        "_start_asgi_task",
        lambda self, *args: (lengths.append(len(self.pipeline)), start(self, *args)),
    )
    number, padding = 2000, "x" * 900
    requests = b"".join(
        f"POST /{index} HTTP/1.1\r\nHost: a\r\nX: {padding}\r\nContent-Length: 1\r\n\r\n.".encode()
        for index in range(number)
    )
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        sender = threading.Thread(target=connection.sendall, args=(requests,))
        sender.start()
        reader, targets = connection.makefile("rb"), []
        while len(targets) < number:
            head = b"".join(iter(reader.readline, b"\r\n"))
            length = int(head.lower().split(b"content-length: ")[1].split()[0])
            targets.append(json.loads(reader.read(length))[1])
        sender.join()
    assert targets == [f"/{index}" for index in range(number)]
    assert max(lengths) <= 2**18 / 900


def test_a_head_without_end_is_cut_off(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nA: ")
        with pytest.raises(ConnectionError):
            connection.sendall(b"a" * 2**26)


H2C = b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n"
H2C += b"Upgrade: h2c\r\n"


@pytest.mark.parametrize("split", [0, 10, 200, -7, -1])
def test_an_offer_of_another_protocol_is_declined_and_the_body_read(port, split):
    one = b"POST /%d HTTP/1.1\r\nHost: x\r\n" + H2C + b"Content-Length: 5\r\n\r\nbody%d"
    chunked = (
        b"POST /2 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + H2C + b"\r\n3\r\nbod\r\n2\r\ny2\r\n0\r\n\r\n"
    )
    websocket = b"GET /3 HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    sent = one % (1, 1) + chunked + websocket + b"GET /4 HTTP/1.1\r\n" + CLOSE
    answers = exchange(port, *([sent[:split], sent[split:]] if split else [sent]))
    assert answers.count(b"HTTP/1.1 200 OK") == 4
    places = [
        answers.index(text)
        for text in (
            b'["POST", "/1", "body1"]',
            b'["POST", "/2", "body2"]',
            b'["GET", "/3", ""]',
            b'["GET", "/4", ""]',
        )
    ]
    assert places == sorted(places)


def test_thousands_of_offers_at_once_are_declined(port):
    one = b"GET /a HTTP/1.1\r\n" + H2C + b"\r\n"
    answers = exchange(port, one * 3000, b"GET /last HTTP/1.1\r\n" + CLOSE)
    assert answers.count(b"HTTP/1.1 200 OK") == 3001


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_curl_offers_http2_and_sends_its_body(port):
    command = ["curl", "--silent", "--http2", "--data", "hello", f"http://127.0.0.1:{port}/a"]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert json.loads(done.stdout) == ["POST", "/a", "hello"]


JAVA = """
import java.net.URI;
import java.net.http.*;
public class Ask {
  public static void main(String[] arguments) throws Exception {
    var client = HttpClient.newHttpClient();
    for (int i = 0; i < 3; i++) {
      var request = HttpRequest.newBuilder(URI.create(arguments[0] + i))
          .POST(HttpRequest.BodyPublishers.ofString("hello".repeat(i * 30000 + 1))).build();
      var answer = client.send(request, HttpResponse.BodyHandlers.ofString());
      System.out.println(answer.statusCode() + " " + answer.body().length());
    }
  }
}
"""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("java"), reason="Java is not installed")
def test_javas_client_offers_http2_and_sends_its_body(port, tmp_path):
    (tmp_path / "Ask.java").write_text(JAVA)
    command = ["java", str(tmp_path / "Ask.java"), f"http://127.0.0.1:{port}/"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    lengths = [len('["POST", "/0", ""]') + 5 * (30000 * i + 1) for i in range(3)]
    assert done.stdout.splitlines() == [f"200 {length}" for length in lengths], done.stderr


def test_a_head_is_answered_with_a_body_and_the_end(port):
    answer = exchange(port, b"HEAD /a HTTP/1.1\r\n\r\n")
    assert b"connection: close\r\n" in answer
    assert answer.endswith(b'["HEAD", "/a", ""]')


def test_http_1_0_ends_with_the_answer(port):
    answer = exchange(port, b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert b"connection: close\r\n" in answer
    assert answer.endswith(b'["GET", "/a", ""]')


def test_a_head_that_has_begun_has_a_limit_of_its_own():
    with serving(echo, timeouts=Timeouts(idle=600, read=0.3)) as port:
        assert exchange(port, b"GET /a HTT").startswith(b"HTTP/1.1 408")


def test_a_client_that_may_not_send_yet_is_not_too_slow(hurried_port):
    """While the first answer takes longer than a pause in a body may, the rest of the next body waits."""
    slow = b"GET /slow HTTP/1.1\r\n\r\n"
    next_one = b"POST /a HTTP/1.1\r\nConnection: close\r\nContent-Length: 200000\r\n\r\n"
    answers = exchange(hurried_port, slow + next_one, b"h" * 200_000)
    assert (answers.count(b"HTTP/1.1 200"), answers.count(b"408")) == (2, 0)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", None),
        (b"\r\n", None),
        (b"GET /a HTT", 408),
        (b"GET /a HTTP/1.1\r\nA: b\r\n", 408),
        (b"POST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\nhi", 408),
        (b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhi", 408),
        (b"POST /a HTTP/1.1\r\nContent-Length: 5\r\n" + H2C + b"\r\nhi", 408),
        (b"GET /a HTTP/1.1\r\n\r\n", 200),
        (b"GET /a HTTP/1.1\r\n\r\nGET /b HT", 200),
        (b"POST /early HTTP/1.1\r\nContent-Length: 5\r\n\r\nhi", 413),
    ],
)
def test_who_sends_nothing_more_is_left(hurried_port, monkeypatch, sent, status):
    monkeypatch.setattr(http_protocol, "_LINGER_SECONDS", 0.1)
    answer = exchange(hurried_port, sent)  # until the server closes the connection
    assert answer.partition(b"\r\n")[0].split()[1:2] == ([] if status is None else [b"%d" % status])


@pytest.mark.parametrize("begin", [b"", b"GET /a HTTP/1.1\r\nA: "])
def test_a_byte_at_a_time_is_no_request(hurried_port, begin):
    with socket.create_connection(("127.0.0.1", hurried_port), timeout=60) as connection:
        connection.sendall(begin)
        connection.settimeout(0.05)
        for _ in range(1200):
            try:
                connection.sendall(b"a" if begin else b"\r\n")
                if not connection.recv(1 << 16):
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
    raise AssertionError("the server waits for ever")


def test_who_does_not_read_the_answer_is_left(hurried_port):
    with socket.create_connection(("127.0.0.1", hurried_port), timeout=60) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        deadline = time.monotonic() + 60
        while connections(hurried_port):
            assert time.monotonic() < deadline, "the answer is kept for ever"
            time.sleep(0.05)


def connections(port):
    """How many connections the server on this port has."""
    protocols = [each for each in gc.get_objects() if type(each) is http_protocol.Protocol]
    return sum(1 for each in protocols if each in each.connections and each.server[1] == port)


def test_who_reads_slowly_but_reads_gets_the_answer(hurried_port):
    with socket.create_connection(("127.0.0.1", hurried_port), timeout=60) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nConnection: close\r\n\r\n")
        size = 0
        while more := connection.recv(1 << 21):
            if size < 2**22:
                time.sleep(0.05)
            size += len(more)
    assert size > 2**27


def test_an_early_answer_arrives_though_the_body_goes_on(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"POST /early HTTP/1.1\r\nContent-Length: 100000000\r\n\r\n")
        for _ in range(100):
            connection.sendall(bytes(10**5))  # ConnectionError if the server has hung up
        answer = b""
        while more := connection.recv(1000):
            answer += more
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close\r\n" in answer
    assert answer.endswith(b"\r\n\r\nno!")


@pytest.mark.parametrize("size", [0, 100_000])
def test_what_a_client_that_has_gone_asked_for_is_given_up(port, size):
    WAITING.clear()
    head = b"POST /wait HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % size
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(head + bytes(size))
        wait_for(lambda: WAITING)
    wait_for(WAITING[0].done)


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
