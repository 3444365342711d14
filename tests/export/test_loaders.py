"""The processes that try an exported model: what happens to one when the other fails."""

import os
import pathlib
import signal
import textwrap
import threading
import time

import pytest

from convnlp.export.verification import loaders


def write(folder, name, code):
    pathlib.Path(folder, name).write_text(textwrap.dedent(code))


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_process_finds_the_packages_that_this_one_finds(tmp_path, monkeypatch):
    (tmp_path / "packages").mkdir()
    write(tmp_path / "packages", "of_the_user.py", "ANSWER = 42")
    code = """
        import pathlib, pickle, sys
        import of_the_user
        _, _, results = sys.argv
        pathlib.Path(results).write_bytes(pickle.dumps(of_the_user.ANSWER))
        """
    write(tmp_path, "c_api.py", code)
    monkeypatch.setattr(loaders, "_FOLDER", tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "packages")  # as PYTHONPATH does
    assert loaders._run("c_api.py", [], []) == 42


def test_a_failure_ends_the_other_process(tmp_path, monkeypatch):
    write(
        tmp_path,
        "fresh_run.py",
        f"""
        import os, pathlib, time
        pathlib.Path({str(tmp_path / "written")!r}).write_text(str(os.getpid()))
        pathlib.Path({str(tmp_path / "written")!r}).rename({str(tmp_path / "pid")!r})
        time.sleep(300)
        pathlib.Path({str(tmp_path / "pid")!r}).unlink()
        """,
    )
    write(
        tmp_path,
        "c_api.py",
        f"""
        import pathlib, time
        while not pathlib.Path({str(tmp_path / "pid")!r}).exists():
            time.sleep(0.1)
        raise RuntimeError("no such symbol")
        """,
    )
    monkeypatch.setattr(loaders, "_FOLDER", tmp_path)
    with pytest.raises(
        ValueError, match=r"c_api.py ends with exit code 1 in a fresh process: .*no such symbol"
    ):
        loaders.ask({}, {})
    assert not is_running(int((tmp_path / "pid").read_text()))  # nor has it slept to its end


def test_an_interruption_ends_both_processes(tmp_path, monkeypatch):
    code = f"""
        import os, pathlib, sys, time
        pid = pathlib.Path({str(tmp_path)!r}, pathlib.Path(sys.argv[0]).stem)
        pid.with_suffix(".new").write_text(str(os.getpid()))
        pid.with_suffix(".new").rename(pid)
        time.sleep(300)
        """
    names = ("fresh_run", "c_api")
    for name in names:
        write(tmp_path, f"{name}.py", code)

    def interrupt():
        while not all((tmp_path / name).exists() for name in names):
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(loaders, "_FOLDER", tmp_path)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            loaders.ask({}, {})
    finally:
        signal.signal(signal.SIGINT, before)
    assert not any(is_running(int((tmp_path / name).read_text())) for name in names)
