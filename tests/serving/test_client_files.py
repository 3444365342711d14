"""The client on files: what it keeps when a run ends early, and how the next run goes on."""

import contextlib
import fcntl
import json
import os
import stat
import sys
import threading

import pytest

from convnlp.serving.client import Client, retries
from convnlp.serving.client.command_line import main
from convnlp.serving.client.examples import batches
from tests.serving.scripted_server import ScriptedServer, http, lengths


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(retries, "sleep", lambda _: None)
    with contextlib.closing(ScriptedServer()) as server:
        yield server


class Files:
    """An input of 1,000 lines, an output, and the runs on them."""

    def __init__(self, server, folder, capsys):
        self.server, self.folder, self.capsys = server, folder, capsys
        self.input, self.output = folder / "texts.txt", folder / "answers.jsonl"
        self.part, self.about = folder / "answers.jsonl.part", folder / "answers.jsonl.part.json"
        self.texts = ["x" * (n % 7) for n in range(1000)]
        self.write()

    def write(self):
        self.input.write_text("".join(f"{text}\n" for text in self.texts))

    def run(self, *more, code=1):
        """Runs the command line, and returns its line of error."""
        self.server.requests.clear()
        flags = [f"--url={self.server.url}", "--model=m", f"--input={self.input}", f"--output={self.output}"]
        assert main([*flags, "--retries=1", *more]) == code
        out, err = self.capsys.readouterr()
        assert out == ""
        assert err.count("\n") == (code != 0)
        return err

    def asked(self):
        """How many examples the server has been asked for."""
        return sum(len(request["instances"]) for request in self.server.requests)

    def fail_after(self, count, answer=b""):
        """Lets the server answer that many requests, and then something else."""
        left = iter(range(count))
        self.server.answer = lambda request: lengths(request) if next(left, None) is not None else answer

    def mend(self):
        self.server.answer = lengths

    def is_complete(self):
        expected = "".join(f"{len(text)}\n" for text in self.texts)
        return self.output.read_text() == expected and not self.part.exists() and not self.about.exists()


@pytest.fixture
def files(server, tmp_path, capsys):
    return Files(server, tmp_path, capsys)


def test_a_run_that_fails_keeps_its_answers_and_the_next_one_goes_on(files):
    files.fail_after(20)
    error = files.run()
    assert error.startswith(f"error: {files.input}:641: no answer from http://127.0.0.1:")
    assert error.endswith(
        f"(asked 2 times) (answers kept: 640, in {files.part}; the same command continues)\n"
    )
    assert files.part.read_text() == "".join(f"{len(text)}\n" for text in files.texts[:640])
    assert not files.output.exists()
    files.mend()
    assert files.run(code=0) == ""
    assert files.asked() == 360
    assert files.is_complete()
    assert sorted(path.name for path in files.folder.iterdir()) == ["answers.jsonl", "texts.txt"]


def test_another_address_and_batch_size_may_continue(files):
    files.fail_after(3)
    files.run()
    files.mend()
    files.run("--batch_size=100", f"--url={files.server.url}/", "--timeout=30", code=0)
    assert files.asked() == 904
    assert files.is_complete()


@pytest.mark.parametrize("place", [0, 639, 640, 999])
def test_the_line_that_is_refused_is_named_and_those_before_it_are_kept(files, place):
    files.texts[place] = "bad"
    files.write()
    error = files.run()
    assert f"error: {files.input}:{place + 1}: no bad texts, please" in error
    if place:
        assert len(files.part.read_text().splitlines()) == place
    else:
        assert sorted(path.name for path in files.folder.iterdir()) == ["texts.txt"]
    assert files.asked() < place + 32 + 64  # the line is found by halves
    files.texts[place] = "good"
    files.write()
    if place:
        assert f"`--input` has changed since {files.part} was begun; delete " in files.run()
        assert files.asked() == 0
        assert len(files.part.read_text().splitlines()) == place
        files.part.unlink()
    files.run(code=0)
    assert files.is_complete()


def test_a_batch_that_is_too_large_is_asked_for_in_parts(files):
    def at_most_five(request):
        return http(413, {"error": "too many"}) if len(request["instances"]) > 5 else lengths(request)

    files.server.answer = at_most_five
    files.run(code=0)
    assert files.is_complete()


@pytest.mark.parametrize(("name", "lines"), [("a.txt", "one\nthree\n"), ("a.jsonl", '"one"\n"three"\n')])
def test_a_byte_order_mark_is_not_part_of_the_first_text(files, name, lines):
    files.input = files.folder / name
    files.input.write_text(lines, encoding="utf-8-sig")
    files.run(code=0)
    assert [request["instances"] for request in files.server.requests] == [["one", "three"]]


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("a.txt", b"\xff\n", "'utf-8' codec can't decode byte 0xff"),
        ("a.jsonl", b'{"a"\n', "Expecting ':'"),
        ("a.jsonl", b"\n", "Expecting value"),
        ("a.jsonl", b"[" * 100_000 + b"\n", "nested too deeply"),
        ("a.jsonl", b"1" * 5000 + b"\n", "Exceeds the limit"),
        ("a.jsonl", b'{"b64": "?"}\n', "base64"),
    ],
)
def test_a_line_that_cannot_be_read_is_named_and_those_before_it_are_kept(files, name, line, message):
    files.input = files.folder / name
    files.input.write_bytes(b'"good"\n' * 40 + line + b'"good"\n')
    error = files.run()
    assert error.startswith(f"error: {files.input}:41: ")
    assert message in error
    assert len(files.part.read_text().splitlines()) == 40


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--model=other", "`--model` must be 'm' to continue {part}; delete {part} to start anew"),
        ("--signature_name=ids", "`--signature_name` must be None to continue"),
        ("--version=3", "`--version` must be None to continue"),
        ("--label=stable", "`--label` must be None to continue"),
    ],
)
def test_answers_to_something_else_are_not_continued(files, flag, message):
    files.fail_after(1)
    files.run()
    files.mend()
    kept = files.part.read_bytes()
    assert message.format(part=files.part) in files.run(flag)
    assert files.asked() == 0
    assert files.part.read_bytes() == kept


def test_texts_of_the_command_line_are_an_input_too(files):
    flags = [f"--url={files.server.url}", "--model=m", f"--output={files.output}", "--batch_size=1"]
    files.fail_after(1)
    assert main([*flags, "--text=one", "--text=three"]) == 1
    assert main([*flags, "--text=one", "--text=four"]) == 1
    assert "`--text` has changed since" in files.capsys.readouterr().err
    files.mend()
    assert main([*flags, "--text=one", "--text=three"]) == 0
    assert files.output.read_text() == "3\n5\n"


@pytest.mark.parametrize("rest", [b"1", b'{"label": "po', b"\xc3", b'"a', b"\0\0\0\0", b"\0\n", b"1\n2"])
def test_a_last_line_that_is_half_written_is_repaired(files, rest):
    files.fail_after(2)
    files.run()
    kept = files.part.read_bytes()
    files.part.write_bytes(kept + rest)
    files.mend()
    files.run(code=0)
    assert files.asked() == (935 if rest.startswith(b"1\n") else 936)
    answers = files.output.read_text().splitlines()
    assert len(answers) == 1000
    assert answers[65:] == [str(len(text)) for text in files.texts[65:]]


def test_a_file_that_is_not_ours_is_not_touched(files):
    files.part.write_text("notes of mine\n1\n")
    assert f"{files.part}:1 is not an answer; delete the file to start anew" in files.run()
    files.part.write_text("1\n2\n")
    assert f"nothing says of what the answers in {files.part} are" in files.run()
    for text in ("{", "[]", "null"):
        files.about.write_text(text)
        files.run()
    assert files.part.read_text() == "1\n2\n"
    assert files.asked() == 0


def test_more_answers_than_lines(files):
    files.fail_after(1)
    files.run()
    files.part.write_text("1\n" * 1001)
    files.mend()
    assert f"{files.part} has 1001 answers to 1000 examples" in files.run()
    assert not files.output.exists()


def test_an_earlier_output_stays_until_the_new_one_is_complete(files):
    files.output.write_text("earlier\n")
    files.fail_after(1)
    files.run()
    assert files.output.read_text() == "earlier\n"
    files.mend()
    files.run(code=0)
    assert files.is_complete()


def test_two_runs_do_not_write_the_same_file(files):
    files.fail_after(1)
    files.run()
    kept = files.part.read_bytes()
    with open(files.part, "rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert f"another run is writing {files.part}" in files.run()
    assert files.part.read_bytes() == kept
    files.mend()
    files.run(code=0)
    assert files.is_complete()


def test_an_interrupted_run_is_continued(files, monkeypatch):
    predict, asked = Client.predict, []

    def interrupted(self, *arguments):
        asked.append(1)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return predict(self, *arguments)

    monkeypatch.setattr(Client, "predict", interrupted)
    assert f"error: {files.input}:65: interrupted (answers kept: 64" in files.run(code=130)
    files.run(code=0)
    assert files.is_complete()


def test_outputs_that_cannot_be_are_refused_before_anything_is_asked(files):
    files.output = files.folder
    assert "`--output` must be a file. Received: " in files.run()
    files.output = files.folder / "none" / "answers.jsonl"
    assert "No such file or directory" in files.run()
    files.output = files.input
    assert "`--output` must not be the file of `--input`" in files.run()
    assert files.asked() == 0
    assert len(files.input.read_text().splitlines()) == 1000


def test_a_link_stays_one_and_a_device_too(files):
    target = files.folder / "elsewhere.jsonl"
    files.output.symlink_to(target)
    files.run(code=0)
    assert files.output.is_symlink()
    assert len(target.read_text().splitlines()) == 1000

    files.output = files.folder / "pipe"
    os.mkfifo(files.output)
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(files.output.read_text().splitlines()))
    reader.start()
    files.run(code=0)
    reader.join()
    assert len(lines) == 1000
    assert stat.S_ISFIFO(files.output.stat().st_mode)


def test_an_input_that_cannot_be_read_again_is_not_continued(files):
    pipe = files.folder / "pipe"
    os.mkfifo(pipe)
    files.input = pipe

    def run():
        writer = threading.Thread(target=lambda: pipe.write_text("one\nbad\n"))
        writer.start()
        error = files.run("--batch_size=1")
        writer.join()
        return error

    assert f"{pipe}:2: no bad texts, please (answers kept: 1, in {files.part}; delete it to start" in run()
    assert files.part.read_text() == "3\n"
    with open(os.open(pipe, os.O_RDWR), "rb"):  # so that nobody waits for a writer
        assert "as its input cannot be read again" in files.run()
    assert files.part.read_text() == "3\n"


def test_an_empty_input_has_an_empty_output(files):
    files.texts = []
    files.write()
    files.run(code=0)
    assert files.is_complete()


def test_answers_that_no_encoding_has(files):
    files.texts = ["a", "b"]
    files.write()
    files.server.answer = lambda _: http(200, b'{"predictions": ["\\ud800", "\xe2\x82\xac"]}')
    files.run(code=0)
    assert files.output.read_text() == '"\\ud800"\n"€"\n'


@pytest.fixture
def standard_output(monkeypatch):
    """Makes a file standard output, as a shell would."""

    def redirect(file):
        monkeypatch.setattr(sys, "stdout", file)

    yield redirect
    monkeypatch.undo()


def test_a_reader_that_has_gone_is_no_error(files, standard_output):
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as file:
        standard_output(file)
        assert main([f"--url={files.server.url}", "--model=m", f"--input={files.input}"]) == 141
    assert files.capsys.readouterr().err == ""
    assert len(files.server.requests) == 1


def test_standard_output_that_takes_no_more(files, standard_output):
    flags = [f"--url={files.server.url}", "--model=m", "--text=one"]
    with open("/dev/full", "w") as file:
        standard_output(file)
        assert main(flags) == 1
    assert "No space left on device" in files.capsys.readouterr().err
    standard_output(None)
    assert main(flags) == 1
    assert "standard output is closed" in files.capsys.readouterr().err


def test_output_in_another_encoding_is_escaped(files, standard_output):
    files.server.answer = lambda _: http(200, {"predictions": ["é€"]})
    path = files.folder / "latin"
    with open(path, "w", encoding="latin-1") as file:
        standard_output(file)
        assert main([f"--url={files.server.url}", "--model=m", "--text=one"]) == 0
    assert json.loads(path.read_text(encoding="latin-1")) == "é€"


def test_batches_before_a_failure_are_yielded():
    def examples():
        yield from range(3)
        raise ValueError("the fourth")

    found = []
    with pytest.raises(ValueError, match="the fourth"):
        found.extend(iter(batches(examples(), 2)))
    assert found == [[0, 1], [2]]


def test_files_may_be_in_the_home_directory(files, monkeypatch):
    monkeypatch.setenv("HOME", str(files.folder))
    monkeypatch.chdir(files.folder)
    files.run("--input=~/texts.txt", "--output=~/answers.jsonl", code=0)
    assert len(files.output.read_text().splitlines()) == 1000
    assert not (files.folder / "~").exists()
