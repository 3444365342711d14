"""The client when servers and networks fail: one line that says what, and another try where that may help."""

import contextlib
import datetime
import email.utils
import socket
from concurrent import futures

import grpc
import pytest

from convnlp.serving.client import Client, RequestError, connect, retries
from convnlp.serving.client.address import is_loopback
from convnlp.serving.client.command_line import main
from convnlp.serving.client.grpc_messages import MESSAGES
from convnlp.serving.client.http_exchange import retry_after
from tests.serving.scripted_server import ScriptedServer, http, lengths

OK = http(200, {"predictions": [3]})
BUSY = http(503, {"error": "queue full"})


@pytest.fixture
def server():
    with contextlib.closing(ScriptedServer()) as server:
        yield server


@pytest.fixture
def pauses(monkeypatch):
    """The pauses before further tries, which take no time here."""
    pauses = []
    monkeypatch.setattr(retries, "sleep", pauses.append)
    return pauses


def answers(*responses):
    """Answers one after another, the last one from then on."""
    responses = list(responses)
    return lambda _: responses.pop(0) if len(responses) > 1 else responses[0]


def error_of(capsys, *arguments):
    """The one line of a command line that fails."""
    assert main(["--model=m", "--text=one", *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert len(err) < 1200
    return err


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (b"garbage\r\n\r\n", "is not HTTP (BadStatusLine"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 101 + b"\r\n", "HTTPException: got more than 100"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70000 + b"\r\n\r\n", "is not HTTP (LineTooLong"),
        (http(200, b"<html>"), "is not JSON"),
        (http(200, b"\xff\xfe\xff"), "is not JSON"),
        (http(200, b"[" * 100_000), "is not JSON"),
        (http(200, b'{"predictions": ["\xff]}'), "is not JSON"),
        (http(200, {"predictions": [{"b64": "é"}]}), "is not JSON"),
        (http(200, {"predictions": [{"b64": "/?w=="}]}), "is not JSON"),
        (http(200, [1]), "is not a JSON object"),
        (http(200, {}), "it has no 'predictions'"),
        (http(200, {"predictions": {"a": 1}}), "it has no 'predictions'"),
        (http(200, {"predictions": [1, 2]}), "must have one entry per example. Received: 2 for 1 examples"),
        (http(200, {"predictions": []}), "must have one entry per example. Received: 0 for 1 examples"),
        (http(302, b"", "Location: https://elsewhere/v1"), "302, moved to https://elsewhere/v1"),
        (http("404 Not Found", b""), "404 Not Found"),
        (http("500 Oops", [1]), "500 Oops"),
        (http("500 Oops", {"error": 5}), "500 Oops"),
        (http(500, {"error": "first\n\x1b[31msecond"}), "first \N{REPLACEMENT CHARACTER}[31msecond"),
        (http(500, {"error": "x" * 10**6}), "xxx ... xxx"),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 50\r\n\r\n{", "500 Oops"),
        (b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "500 Oops"),
    ],
)
def test_odd_answers_are_one_line_and_are_not_asked_for_again(server, pauses, capsys, response, message):
    server.answer = answers(response)
    assert message in error_of(capsys, f"--url={server.url}")
    assert len(server.requests) == 1
    assert pauses == []


@pytest.mark.parametrize("method", ["status", "metadata", "classify", "regress"])
@pytest.mark.parametrize(
    "answer", [{}, {"metadata": {"signature_def": 1}}, {"model_version_status": 1, "results": None}]
)
def test_every_method_says_what_an_answer_lacks(server, method, answer):
    server.answer = answers(http(200, answer))
    arguments = ("m",) if method in ("status", "metadata") else ("m", [{"x": 1.0}])
    with pytest.raises(RequestError, match="is not TF Serving's: it has no '"):
        getattr(Client(server.url), method)(*arguments)


@pytest.mark.parametrize(
    "lost",
    [
        b"",
        None,
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        BUSY,
        http(429, {"error": "slow down"}),
    ],
    ids=["closed", "reset", "cut off", "chunk cut off", "503", "429"],
)
def test_what_may_pass_is_asked_again_after_growing_pauses(server, pauses, capsys, caplog, lost):
    server.answer = answers(*[lost] * 5, OK)
    assert main(["--model=m", "--text=one", f"--url={server.url}"]) == 0
    assert capsys.readouterr().out == "3\n"
    assert server.requests == [{"instances": ["one"]}] * 6
    for n, pause in enumerate(pauses):
        assert 0.25 * 2**n <= pause <= 0.5 * 2**n
    assert len(pauses) == 5
    assert "trying again in" in caplog.text
    assert "(5 of 5)" in caplog.text

    server.answer, server.requests[:] = answers(lost), []
    assert "(asked 3 times)" in error_of(capsys, f"--url={server.url}", "--retries=2")
    assert len(server.requests) == 3
    error_of(capsys, f"--url={server.url}", "--retries=0")
    assert len(server.requests) == 4


def test_pauses_are_drawn_and_bounded(pauses):
    drawn = []
    for _ in range(3):
        with contextlib.suppress(RequestError):
            retries.Retries(2000).run(fail)
        assert max(pauses) <= 30
        drawn.append(tuple(pauses))
        pauses.clear()
    assert len(set(drawn)) == 3


def fail():
    raise RequestError("busy", 503, is_transient=True)


def test_the_server_says_how_long_to_wait(server, pauses, capsys):
    soon = http(503, {"error": "queue full"}, "Retry-After: 7")
    server.answer = answers(soon, http(429, b"", "Retry-After: soon"), OK)
    assert Client(server.url).predict("m", ["one"]) == [3]
    assert 7 <= pauses[0] <= 7.2
    assert pauses[1] <= 1
    server.answer = answers(http(503, {"error": "queue full"}, "Retry-After: 86400"))
    assert "queue full (it asks to be left alone for 86400 s)" in error_of(capsys, f"--url={server.url}")
    assert len(server.requests) == 4


def test_both_forms_of_retry_after():
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=100)
    assert retry_after(email.utils.format_datetime(later)) == pytest.approx(100, abs=60)
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == retry_after("-5") == 0
    assert retry_after("2.5") == 2.5
    for value in (None, "", "soon", "nan", "inf", "1e999", "Wed, 99 Oct 2015 07:28:00 GMT"):
        assert retry_after(value) is None


def test_a_server_that_is_silent_or_drips(server, pauses, capsys):
    server.answer = answers(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert f"no answer from {url} within 0.05 s" in error_of(capsys, f"--url={url}", "--timeout=0.05")

    class Drips:
        length = 10**6

        def read1(self, _):
            return b"x"

    with pytest.raises(TimeoutError):
        Client(server.url, 0.01)._http._read(Drips())


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8501",
        "localhost:8501",
        "ftp://127.0.0.1",
        "file:///etc/passwd",
        "http://",
        "http:///v1",
        "http://127.0.0.1:port",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:-1",
        "http://127.0.0.1:0",
        "http://[::1",
        "http://user:secret@127.0.0.1:8501",
        "http://127.0.0.1:8501/v1?x=1",
        "http://127.0.0.1:8501/#page",
        "http://127.0.0.1 :8501",
        "http://127.0.0.1:8501/a b",
        "http://127.0.0.1:8501/\n",
        "http://a..b:8501",
        f"http://{'a' * 70}.com",
        "grpc://127.0.0.1",
        "grpc://:8500",
        "grpc://127.0.0.1:99999",
        "grpc://127.0.0.1:8500/models",
        "",
    ],
)
def test_a_wrong_url_is_named(capsys, url):
    assert "`url` must be " in (error := error_of(capsys, f"--url={url}"))
    assert "Received: " in error


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--batch_size=0", "`--batch_size` must be at least 1. Received: 0"),
        ("--timeout=nan", "`timeout_seconds` must be in (0, 86400]. Received: nan"),
        ("--timeout_seconds=0", "`timeout_seconds` must be in (0, 86400]. Received: 0.0"),
        ("--timeout=1e20", "`timeout_seconds` must be in (0, 86400]. Received: 1e+20"),
        ("--retries=-1", "`retries` must be an integer of at least 0. Received: -1"),
        ("--model=", "`model` must be a name. Received: ''"),
        ("--model=\udcff", "surrogates not allowed"),
    ],
)
def test_wrong_flags_are_named_before_anything_is_asked(server, capsys, flag, message):
    assert message in error_of(capsys, f"--url={server.url}", flag)
    assert server.requests == []


def test_a_version_and_a_label_exclude_each_other(server, capsys):
    with pytest.raises(SystemExit) as stop:
        main([f"--url={server.url}", "--model=m", "--text=one", "--version=1", "--label=stable"])
    assert stop.value.code == 2
    assert "not allowed with argument" in capsys.readouterr().err
    for client in (Client(server.url), connect("grpc://127.0.0.1:1")):
        with pytest.raises(ValueError, match="only one of `version` and `label`"):
            client.predict("m", ["one"], version=1, label="stable")


def test_names_that_do_not_resolve_and_certificates(server, pauses, capsys, monkeypatch):
    server.answer = answers(b"\x15\x03\x01\x00\x02\x02\x28")
    error = error_of(capsys, f"--url=https://127.0.0.1:{server.port}")
    assert f"no answer from https://127.0.0.1:{server.port}: [SSL" in error

    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert "no answer from http://nowhere.test: " in error_of(capsys, "--url=http://nowhere.test")
    assert pauses == []


def test_a_proxy_is_not_asked_for_this_machine(server, monkeypatch):
    with contextlib.closing(ScriptedServer()) as proxy:
        proxy.answer = answers(OK)
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "grpc_proxy"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
            monkeypatch.delenv(name, raising=False)
        assert Client(server.url).predict("m", ["four"]) == [4]
        assert Client(f"http://localhost:{server.port}").predict("m", ["four"]) == [4]
        assert proxy.requests == []
        assert Client("http://models.test:8501").predict("m", ["four"]) == [3]
        assert len(proxy.requests) == 1


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("a.localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("127.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", True),
        ("10.0.0.1", False),
        ("::2", False),
        ("localhost.example", False),
        ("127.0.0.1.example", False),
    ],
)
def test_what_counts_as_this_machine(host, expected):
    assert is_loopback(host) is expected


class Handler(grpc.GenericRpcHandler):
    """A gRPC server's methods: metadata of one text input; predictions by a script of functions."""

    def __init__(self):
        self.predict, self.metadata = [], signature()
        self.requests = self.questions = 0

    def service(self, details):
        method = self._metadata if details.method.endswith("GetModelMetadata") else self._predict
        return grpc.unary_unary_rpc_method_handler(method)

    def _metadata(self, _request, _context):
        self.questions += 1
        return self.metadata

    def _predict(self, _request, context):
        self.requests += 1
        answer = self.predict.pop(0) if len(self.predict) > 1 else self.predict[0]
        return answer if isinstance(answer, bytes) else context.abort(*answer)


def signature(name="text"):
    signatures = MESSAGES["SignatureDefMap"]()
    signatures.signature_def["serving_default"].inputs[name].dtype = 7
    response = MESSAGES["MetadataResponse"]()
    response.metadata["signature_def"].value = signatures.SerializeToString()
    return response.SerializeToString()


def outputs(sizes, values, dtype=9, **content):
    response = MESSAGES["PredictResponse"]()
    response.outputs["y"].dtype = dtype
    response.outputs["y"].int64_val.extend(values)
    for size in sizes:
        response.outputs["y"].tensor_shape.dim.add(size=size)
    return response.SerializeToString()


@pytest.fixture
def handler():
    handler = Handler()
    server = grpc.server(futures.ThreadPoolExecutor(1), [handler])
    handler.url = f"grpc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield handler
    server.stop(None)


@pytest.mark.parametrize("status", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED])
def test_grpc_asks_again_too(handler, pauses, capsys, status):
    handler.predict = [(status, "queue full"), (status, "queue full"), outputs([1], [3])]
    assert main(["--model=m", "--text=one", f"--url={handler.url}"]) == 0
    assert capsys.readouterr().out == "3\n"
    assert 0.25 <= pauses[0] <= 0.5 <= pauses[1] <= 1
    handler.predict, handler.requests = [(status, "queue full")], 0
    assert "queue full (asked 4 times)" in error_of(capsys, f"--url={handler.url}", "--retries=3")
    assert handler.requests == 4


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((grpc.StatusCode.INTERNAL, "oops"), "oops"),
        ((grpc.StatusCode.DEADLINE_EXCEEDED, "late"), "late"),
        ((grpc.StatusCode.RESOURCE_EXHAUSTED, "Message larger than max (9 vs. 4)"), "larger than max"),
        ((grpc.StatusCode.UNKNOWN, ""), "no reason given"),
        (b"\xff\xff", "is not TF Serving's"),
        (b"", "has no outputs"),
        (outputs([2], [3, 4]), "must have one entry per example. Received: 2 for 1 examples"),
        (outputs([], [3]), "must have one entry per example. Received: no list for 1 examples"),
        (outputs([1], []), "an output of the shape [1] has 0 values"),
        (outputs([-1], [3]), "an output of the shape [-1] has 1 values"),
        (outputs([1], [3], 8), "the type with number 8"),
    ],
)
def test_odd_answers_of_grpc(handler, pauses, capsys, caplog, answer, message):
    handler.predict = [answer]
    assert message in error_of(capsys, f"--url={handler.url}")
    assert (handler.requests, pauses, caplog.text) == (1, [], "")


def test_metadata_that_is_none(handler, capsys):
    handler.metadata = b"\xff\xff"
    assert "is not TF Serving's" in error_of(capsys, f"--url={handler.url}")
    handler.metadata = b""
    assert "has no signature serving_default" in error_of(capsys, f"--url={handler.url}")


def test_a_new_version_may_have_other_inputs(handler):
    refused = (grpc.StatusCode.INVALID_ARGUMENT, "input size does not match signature")
    with contextlib.closing(connect(handler.url)) as client:
        handler.predict = [outputs([1], [3])]
        for _ in range(2):
            assert client.predict("m", ["one"]) == client.predict("m", ["one"], version=1) == [3]
        assert handler.questions == 2  # one without a version

        handler.metadata, handler.predict = signature("words"), [refused, outputs([1], [4])]
        assert client.predict("m", ["one"]) == [4]
        handler.metadata = signature("letters")
        assert client.predict("m", [{"letters": "one"}]) == [4]  # refused here before
        assert handler.questions == 4

        handler.predict, handler.requests = [refused], 0
        for version in (None, 1):
            with pytest.raises(RequestError, match="input size does not match signature"):
                client.predict("m", ["one"], version=version)
        assert (handler.requests, handler.questions) == (2, 5)  # a version keeps its inputs


def test_nobody_listens(pauses, capsys):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error = error_of(capsys, f"--url=http://127.0.0.1:{port}")
    assert "refused (asked 6 times)" in error
    assert len(pauses) == 5
    assert "(asked 2 times)" in error_of(capsys, f"--url=grpc://127.0.0.1:{port}", "--retries=1")
    # A test elsewhere waits for a server that starts: that is no retry.
    with pytest.raises(RequestError, match="does not serve m"):
        Client(f"http://127.0.0.1:{port}").wait("m", 0.01)
    assert len(pauses) == 6


def test_a_text_that_is_refused_is_named(server, capsys):
    server.answer = lengths
    assert main([f"--url={server.url}", "--model=m", "--text=one", "--text=bad", "--text=three"]) == 1
    out, err = capsys.readouterr()
    assert out == "3\n"
    assert err == "error: --text number 2: no bad texts, please (answers written: 1)\n"
    assert main([f"--url={server.url}", "--model=m", "--text=\udcff"]) == 1
    assert "'utf-8' codec can't decode byte 0xff" in capsys.readouterr().err
