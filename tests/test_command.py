"""`convnlp NAME ...`: the table of programs, what is printed without TensorFlow, and that it runs them."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import convnlp
from convnlp import command
from tests.run_program import ROOT, run_program

# Starts as `python -m convnlp` does, where importing TensorFlow or Keras raises.
WITHOUT_TENSORFLOW = """
import runpy, sys
sys.orig_argv = ["python", "-m", "convnlp", *sys.argv[1:]]
for name in ("absl", "keras", "numpy", "tensorflow"):
    sys.modules[name] = None
sys.path.insert(0, {root!r})
runpy.run_module("convnlp", run_name="__main__", alter_sys=True)
"""


def start(*arguments, directory):
    code = WITHOUT_TENSORFLOW.format(root=ROOT)
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=directory, capture_output=True, text=True, check=False
    )


def test_every_program_has_a_name():
    """All files with a main are in the table, but those that are parts of another program."""
    parts = {
        "convnlp.__main__",
        "convnlp.export.verification.c_api",
        "convnlp.export.verification.fresh_run",
        "convnlp.launching.with_parent",
    }
    programs = set()
    for folder in ("convnlp", "export", "serving"):
        for path in (Path(ROOT) / folder).rglob("*.py"):
            if re.search('^if __name__ == "__main__":', path.read_text(encoding="utf-8"), re.M):
                dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                programs.add(dotted if folder == "convnlp" else f"convnlp.{dotted}")
    assert set(command.modules().values()) == programs - parts | {"convnlp.serving.client"}
    assert all(importlib.util.find_spec(module) for module in command.modules().values())
    assert set(command.OTHER_NAMES.values()) <= set(command.modules())


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("finetune", "convnlp.finetune"),
        ("fit_head", "convnlp.fit_head"),
        ("saved_model", "convnlp.export.saved_model"),
        ("client", "convnlp.serving.client"),
        ("finetun", None),
        ("convnlp.finetune", None),
    ],
)
def test_names(name, module):
    assert command.find(name) == module


@pytest.mark.multiprocess
@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_the_overview_needs_no_tensorflow(tmp_path, arguments):
    done = start(*arguments, directory=tmp_path)
    assert done.stderr == ""
    named = re.findall(r"^  ([\w-]+) +\S", done.stdout, re.M)
    assert named == list(command.modules())
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.multiprocess
def test_the_overview_may_end_early():
    """As with `convnlp --help | head`."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "convnlp", "--help"],
        cwd=ROOT,
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode == -signal.SIGPIPE


@pytest.mark.multiprocess
def test_the_version(tmp_path):
    assert start("--version", directory=tmp_path).stdout == f"convnlp {convnlp.__version__}\n"


@pytest.mark.multiprocess
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("fine-tune", "error: unknown program 'fine-tune'; did you mean finetune?\n"),
        ("xyz", "error: unknown program 'xyz'; see convnlp --help\n"),
    ],
)
def test_an_unknown_name_is_one_line(tmp_path, name, line):
    done = start(name, directory=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", line)


@pytest.mark.multiprocess
@pytest.mark.parametrize(
    ("name", "flag"),
    [("fit_head", "--workdir"), ("export", "--output"), ("serve", "--rest_api_port"), ("ask", "--status")],
)
def test_help_of_a_program(name, flag):
    done = run_program("convnlp", name, "--help")
    assert flag in done.stdout, done.stderr


@pytest.mark.multiprocess
def test_errors_and_modules_are_those_of_the_program(tmp_path, monkeypatch):
    """From another directory, whose modules --modules finds; `serve` checks its own flags."""
    monkeypatch.setenv("PYTHONPATH", ROOT)
    (tmp_path / "mine.py").write_text("raise ValueError('mine was imported')\n")
    done = run_program("convnlp", "verify", "--modules=mine", "--model=none", directory=tmp_path)
    assert (done.returncode, done.stderr) == (1, "error: mine was imported\n")
    done = run_program("convnlp", "export", "--nonsense=1", directory=tmp_path)
    assert (done.returncode, done.stderr) == (1, "error: Unknown command line flag 'nonsense'\n")
