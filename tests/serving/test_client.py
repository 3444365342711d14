"""The client: against a server in this process that records what it is asked, and its command line."""

import contextlib
import io
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from convnlp.serving.client import Client, RequestError, connect
from convnlp.serving.client.command_line import main
from convnlp.serving.client.examples import batches
from convnlp.serving.grpc.service import build_grpc_server
from tests.serving.scripted_server import ScriptedServer, http
from tests.serving.server_thread import serving


class Recorder(BaseHTTPRequestHandler):
    """Answers predictions with the lengths of the texts, and remembers every request."""

    def do_GET(self):
        self.server.requests.append((self.path, None))
        self._answer(200, {"model_version_status": [{"version": "1", "state": "AVAILABLE"}]})

    def do_POST(self):
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, document))
        if "bad" in document["instances"]:
            self._answer(400, {"error": "no bad texts, please"})
        else:
            self._answer(200, {"predictions": [len(text) for text in document["instances"]]})

    def _answer(self, status, document):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        server.requests = []
        server.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_requests_have_tf_servings_form(server):
    client = Client(server.url + "/")
    assert client.predict("a b", ["x", "yy"], signature_name="ids", version=3) == [1, 2]
    assert client.predict("m", [b"\xff"], label="stable") == [1]
    assert client.status("m")[0]["state"] == "AVAILABLE"
    assert server.requests == [
        ("/v1/models/a%20b/versions/3:predict", {"instances": ["x", "yy"], "signature_name": "ids"}),
        ("/v1/models/m/labels/stable:predict", {"instances": [{"b64": "/w=="}]}),
        ("/v1/models/m", None),
    ]


def test_errors_carry_the_servers_words(server):
    with pytest.raises(RequestError, match="no bad texts, please") as error:
        Client(server.url).predict("m", ["bad"])
    assert error.value.status == 400
    with pytest.raises(RequestError, match=r"no answer from http://127\.0\.0\.1:1: .*refused"):
        Client("http://127.0.0.1:1", retries=0).status("m")


def test_strings_that_are_not_utf8_are_bytes_as_over_grpc():
    content = b'["\xff\xc3\xa9", {"a": ["\xc3\xa9", "\xed\xa0\x80", "\\ud83d", 1, {"b64": "/w=="}]}]'
    content = b'{"predictions": ' + content + b"}"
    with contextlib.closing(ScriptedServer()) as server:
        server.answer = lambda _: http(200, content)
        client = Client(server.url)
        half = "\ud83d"  # of a pair, which is no UTF-8 either
        assert client.predict("m", ["x", "y"]) == [
            b"\xff\xc3\xa9",
            {"a": ["é", b"\xed\xa0\x80", half, 1, b"\xff"]},
        ]
        content = b'\xef\xbb\xbf{"predictions": ["\\udcff"]}'
        assert client.predict("m", ["x"]) == ["\udcff"]


def test_files_in_and_out(server, tmp_path, capsys):
    texts, answers = tmp_path / "texts.txt", tmp_path / "answers.jsonl"
    texts.write_text("one\nthree\n\nseven €\n", encoding="utf-8")
    arguments = [f"--url={server.url}", "--model=m", f"--input={texts}", f"--output={answers}"]
    assert main([*arguments, "--batch_size=3"]) == 0
    assert answers.read_text() == "3\n5\n0\n7\n"
    assert [document["instances"] for _, document in server.requests] == [["one", "three", ""], ["seven €"]]

    examples = tmp_path / "texts.jsonl"
    examples.write_text('"one"\n[1, 2]\n')
    assert main([f"--url={server.url}", "--model=m", f"--input={examples}"]) == 0
    assert capsys.readouterr().out == "3\n2\n"


def test_batches_keep_the_order_and_the_rest():
    assert list(batches(range(5), 2)) == [[0, 1], [2, 3], [4]]


@pytest.mark.multiprocess
def test_it_needs_nothing_but_the_standard_library():
    code = (
        "import sys; before = set(sys.modules); import convnlp.serving.client.command_line;"
        "names = {name.split('.')[0] for name in set(sys.modules) - before} - {'convnlp'};"
        "print(names - set(sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_file_has_a_progress_bar_on_a_terminal(server, tmp_path, monkeypatch):
    texts, answers = tmp_path / "texts.txt", tmp_path / "answers.jsonl"
    texts.write_text("one\ntwo\nthree\n")
    arguments = [f"--url={server.url}", "--model=m", f"--input={texts}", f"--output={answers}"]
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert main([*arguments, "--batch_size=2"]) == 0
    assert "3/3" in sys.stderr.getvalue()
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert main(arguments) == 0
    assert sys.stderr.getvalue() == ""
    assert answers.read_text() == "3\n3\n5\n"


@pytest.fixture
def both(models):
    """A client for REST and one for gRPC, of the same models."""
    grpc_server = build_grpc_server(models.manager, models.runner, models.metrics)
    grpc_port = grpc_server.add_insecure_port("127.0.0.1:0")
    grpc_server.start()
    with serving(models.app) as port:
        clients = connect(f"http://127.0.0.1:{port}"), connect(f"grpc://127.0.0.1:{grpc_port}")
        yield clients
        clients[1].close()
    grpc_server.stop(None)


def test_rest_and_grpc_answer_alike(both):
    rest, grpc = both
    pair = [{"a": [1.0, 2.0], "b": 3}, {"a": [4.0, 5.0], "b": 6}]
    for model, instances, options in [
        ("affine", [1.0, 2.0], {}),
        ("affine", [1.0], {"version": 1}),
        ("affine", [1.0], {"label": "stable"}),
        ("affine", [{"text": "é", "count": 2}], {"signature_name": "repeat"}),
        ("g", pair, {"signature_name": "pair"}),
        ("g", [[[1, 2], [3, 4]]], {"signature_name": "int64"}),
        ("g", [True, False], {"signature_name": "bool"}),
        ("g", ["a", "é"], {"signature_name": "string"}),
        ("affine", np.array([1.0, 2.0], np.float32), {}),
        ("affine", (np.float32(0.5), np.int64(2)), {}),
        ("g", [{"a": np.ones(2), "b": np.int32(3)}, {"a": (4, 5), "b": 6}], {"signature_name": "pair"}),
        ("g", [((1, 2), (3, 4))], {"signature_name": "int64"}),
        ("g", [np.eye(2, dtype=int), [(1, 2), np.array([3, 4])]], {"signature_name": "int64"}),
        ("g", [np.bool_(True), False], {"signature_name": "bool"}),
        ("g", np.array(["a", "é"]), {"signature_name": "string"}),
    ]:
        expected = rest.predict(model, instances, **options)
        answer = grpc.predict(model, instances, **options)
        assert answer == expected
        if isinstance(answer[0], dict):
            assert [*answer[0]] == [*expected[0]]
    assert grpc.predict("g", [b"\xff\x00"], "string") == [b"\xff\x00"]
    assert [state["version"] for state in grpc.status("affine")] == ["2", "1"]
    assert grpc.status("affine", 1)[0]["state"] == rest.status("affine", 1)[0]["state"] == "AVAILABLE"
    examples = [{"x": 1.5}]
    assert rest.classify("g", examples, "classify") == [[["small", 1.5], ["large", 3.0]]]
    assert rest.regress("g", examples, "regress") == [0.75]


@pytest.mark.parametrize(
    ("model", "instances", "options", "message", "status"),
    [
        ("none", [1.0], {}, "Servable not found", "NOT_FOUND"),
        ("affine", ["a"], {}, "input x does not fit", "INVALID_ARGUMENT"),
        ("affine", [[1.0], [2.0, 3.0]], {}, "its rows differ in shape", "INVALID_ARGUMENT"),
        ("affine", [1.0], {"signature_name": "none"}, "the model has no signature none", "INVALID_ARGUMENT"),
        ("g", [1.0], {"signature_name": "complex64"}, "does not know the type", "INVALID_ARGUMENT"),
    ],
)
def test_errors_of_grpc(both, model, instances, options, message, status):
    with pytest.raises(RequestError, match=message) as error:
        both[1].predict(model, instances, **options)
    assert error.value.status == status


@pytest.mark.parametrize(
    ("model", "instances", "signature", "message"),
    [
        ("g", [1.0, 2.0], "pair", "the inputs are a, b, so each example must be a dict with all of them"),
        ("affine", [{"x": 1.0, "z": 2.0}], None, "item 0: there is no input 'z', only x"),
        ("affine", [{"x": 1.0}, 2.0], None, "expecting a dict as before, but got a value at item 1"),
        ("affine", [1.0, {"x": 2.0}], None, "expecting a value as before, but got a dict at item 1"),
        ("affine", [True], None, "input x does not fit: True is not of its type"),
        ("g", [1], "bool", "input x does not fit: 1 is not of its type"),
        ("g", [1.0], "int32", "input x does not fit: 1.0 is not of its type"),
    ],
)
def test_grpc_refuses_what_rest_refuses(both, model, instances, signature, message):
    errors = []
    for client in both:
        with pytest.raises(RequestError) as error:
            client.predict(model, instances, signature)
        errors.append(error.value)
    rest, grpc = errors
    assert (rest.status, grpc.status) == (400, "INVALID_ARGUMENT")
    assert rest.is_refused
    assert grpc.is_refused
    assert str(grpc) == message


@pytest.mark.parametrize("version", [True, -1, 2**63, 1.0, "1"])
def test_a_version_that_is_none_is_refused(server, version):
    rule = r"`version` must be a whole number in \[0, 2\*\*63\)"
    for client in (Client(server.url), connect("grpc://127.0.0.1:1")):
        with pytest.raises(ValueError, match=rule):
            client.predict("m", ["a"], version=version)
        with pytest.raises(ValueError, match=rule):
            client.status("m", version)
    assert server.requests == []
    assert Client(server.url).predict("m", ["a"], version=np.int64(3)) == [1]


@pytest.mark.parametrize(
    "value",
    [{1}, np.datetime64("2020-01-01"), {(1, 2): 3}, 10**400],
    ids=["set", "date", "key", "large"],
)
def test_what_cannot_be_sent_is_an_error_of_the_request(both, value):
    for client in both:
        with pytest.raises(RequestError) as error:
            client.predict("affine", [value])
        assert error.value.is_refused


@pytest.mark.multiprocess
def test_grpc_needs_no_tensorflow():
    code = (
        "import sys; import convnlp.serving.client.grpc_client;"
        "print({'tensorflow', 'tensorflow_serving', 'numpy', 'convnlp.models'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("one", ["a text", b"bytes", {"text": "a"}, 3, None, np.array(3)])
def test_one_example_in_place_of_a_list_is_refused(server, one):
    """Not taken for letters or keys."""
    with pytest.raises(ValueError, match="`instances` must be a list with one"):
        Client(server.url).predict("m", one)
    with pytest.raises(ValueError, match="`examples` must be a list with one"):
        Client(server.url).classify("m", one)
    with pytest.raises(ValueError, match="`instances` must be a list with one"):
        connect("grpc://127.0.0.1:1").predict("m", one)
    assert server.requests == []
    assert Client(server.url).predict("m", ("a", "bc")) == [1, 2]
