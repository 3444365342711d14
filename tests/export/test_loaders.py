"""The processes that try an exported model: what happens to one when the other fails."""

import os
import pathlib
import textwrap

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
