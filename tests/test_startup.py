"""What a program writes while TensorFlow starts: its own lines, and none of TensorFlow's notes."""

import os
import subprocess
import sys

import pytest

from tests.run_program import ROOT, run_program

CODE = """
import os, sys
from convnlp import startup
with startup.notes_hidden():
    os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\\n")
    os.write(2, b"I0000 00:00:17 1 port.cc:153] oneDNN custom operations are on.\\n")
    os.write(2, b"W0000 00:00:17 1 some.cc:1] a warning\\n")
    print("from Python", file=sys.stderr)
    {then}
print("afterwards", file=sys.stderr)
"""


def run(code, **environment):
    """Runs that code in a fresh process, without TensorFlow's log level of the tests."""
    inherited = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def stderr(code, **environment):
    """The lines that it writes to stderr."""
    return run(code, **environment).stderr.splitlines()


@pytest.mark.multiprocess
def test_only_notes_are_hidden():
    assert stderr(CODE.format(then="pass")) == [
        "W0000 00:00:17 1 some.cc:1] a warning",
        "from Python",
        "afterwards",
    ]


@pytest.mark.multiprocess
def test_an_error_while_starting_is_shown():
    lines = stderr(CODE.format(then="raise ImportError('broken')"))
    assert "from Python" in lines
    assert lines[-1] == "ImportError: broken"


@pytest.mark.multiprocess
def test_log_level_0_shows_them():
    assert sum("oneDNN" in line for line in stderr(CODE.format(then="pass"), TF_CPP_MIN_LOG_LEVEL="0")) >= 1


@pytest.mark.multiprocess
def test_with_stderr_closed():
    done = run("import os; os.close(2); import convnlp; print(convnlp.__version__)")
    assert done.stdout.strip()


@pytest.mark.multiprocess
@pytest.mark.parametrize("program", ["convnlp.prepare_tfds", "export.saved_model", "export.tflite_report"])
def test_a_wrong_flag_is_one_line(program):
    assert run_program(program, "--nonsense=1").stderr == "error: Unknown command line flag 'nonsense'\n"


@pytest.mark.multiprocess
def test_importing_convnlp_writes_nothing():
    assert stderr("import convnlp") == []
