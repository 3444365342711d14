"""Programs that the fork server starts find and leave what those of `python -m` do."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.run_program import ROOT, Program, run_program

pytestmark = pytest.mark.multiprocess

PROGRAM = """
import atexit, json, os, signal, sys, threading
atexit.register(print, "the end")
print(json.dumps({
    "name": __name__, "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path, "cwd": os.getcwd(),
    "environment": dict(os.environ), "stdin": sys.stdin.read(), "descriptors": os.listdir("/proc/self/fd"),
    "main": sys.modules["__main__"].__file__, "threads": threading.active_count(),
    "signals": [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)],
    "ours": sorted({"convnlp", "configs", "export", "serving", "tests"} & set(sys.modules)),
    "text": sorted({"keras_nlp", "tensorflow_text"} & set(sys.modules)),
}))
print("to stderr", file=sys.stderr)
if "--fail" in sys.argv:
    raise ValueError("wrong")
sys.exit(3)
"""


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    (tmp_path / "told.py").write_text(PROGRAM)
    (tmp_path / "waits.py").write_text("import os, time\nos.write(1, b'begun')\ntime.sleep(60)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.parametrize("is_file", [False, True])
def test_all_that_a_program_can_tell_is_as_of_python(is_file, tmp_path):
    """As of `python -m module`, or as of `python -I file.py`."""
    arguments = [str(tmp_path / "told.py") if is_file else "told", "--a=1", "b c"]
    directory = tmp_path if is_file else ROOT
    forked = run_program(*arguments, stdin="größer", directory=directory)
    command = [sys.executable, "-I" if is_file else "-m", *arguments]
    started = subprocess.run(
        command, cwd=directory, env=dict(os.environ), capture_output=True, text=True, input="größer"
    )
    assert (forked.returncode, forked.stderr) == (started.returncode, started.stderr) == (3, "to stderr\n")
    (found, end), (expected, _) = forked.stdout.splitlines(), started.stdout.splitlines()
    assert end == "the end"
    found, expected = json.loads(found), json.loads(expected)
    if not is_file:
        del found["text"], expected["text"]
    assert found == expected
    assert found["ours"] == []


def test_errors_are_those_of_the_program():
    failed = run_program("told", "--fail")
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1] == "ValueError: wrong"


def test_several_run_at_once_and_are_ended_by_signals(tmp_path):
    with open(tmp_path / "out", "wb") as out:
        programs = [Program("waits", stdout=out) for _ in range(2)]
    deadline = time.monotonic() + 60
    while (tmp_path / "out").stat().st_size < 10 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [program.poll() for program in programs] == [None, None]
    with pytest.raises(subprocess.TimeoutExpired):
        programs[0].wait(0.01)
    programs[0].send_signal(signal.SIGTERM)
    programs[1].kill()
    assert [program.wait(60) for program in programs] == [-signal.SIGTERM, -signal.SIGKILL]
    programs[1].kill()  # whose number may be another process's by now
    assert not os.path.exists(f"/proc/{programs[0].pid}")
