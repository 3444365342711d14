"""The client: against a server in this process that records what it is asked, and its command line."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from serving.client import Client, RequestError, batches, main


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
        Client("http://127.0.0.1:1").status("m")
    with pytest.raises(TypeError, match="got set"):
        Client(server.url).predict("m", [{1}])


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


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("texts.txt", b"good\nbad\n", "no bad texts, please"),
        ("texts.txt", b"good\n\xff\n", "texts.txt:2: 'utf-8' codec can't decode"),
        ("texts.jsonl", b'"good"\n{"a"\n', "texts.jsonl:2: Expecting ':'"),
    ],
)
def test_a_failure_is_one_line_and_leaves_no_file(server, tmp_path, capsys, name, content, message):
    (tmp_path / name).write_bytes(content)
    output = tmp_path / "answers.jsonl"
    arguments = [f"--url={server.url}", "--model=m", f"--input={tmp_path / name}", f"--output={output}"]
    assert main([*arguments, "--batch_size=1"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_batches_keep_the_order_and_the_rest():
    assert list(batches(range(5), 2)) == [[0, 1], [2, 3], [4]]


@pytest.mark.multiprocess
def test_it_needs_nothing_but_the_standard_library():
    code = (
        "import sys; before = set(sys.modules); import serving.client;"
        "names = {name.split('.')[0] for name in set(sys.modules) - before} - {'serving'};"
        "print(names - set(sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
