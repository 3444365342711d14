"""What a worker tells its launcher."""

import os
import signal
import subprocess
import sys

import pytest

from tests.run_program import ROOT

pytestmark = pytest.mark.multiprocess

# The module alone: the package beside it imports TensorFlow.
CODE = """
import runpy, time
heartbeat = runpy.run_path("convnlp/training/heartbeat.py")
heartbeat["begin"]()
heartbeat["begin"]()
heartbeat["mark"](step=10)
{then}
"""


def start(then, **environment):
    code = CODE.format(then=then)
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **environment},
        close_fds=False,
        timeout=60,
        check=False,
    ).returncode


def test_marks_and_beats():
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    assert start("time.sleep(1.5)", CONVNLP_HEARTBEAT=str(writer)) == 0
    os.close(writer)
    with open(reader, "rb") as file:
        lines = file.read().splitlines()
    assert lines.count(b'{"step": 10}') == 1
    assert lines.count(b"{}") >= 1


def test_a_launcher_that_does_not_read_stops_nothing():
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    assert start("for i in range(10**5): heartbeat['mark'](step=i)", CONVNLP_HEARTBEAT=str(writer)) == 0
    os.close(reader)
    os.close(writer)


def test_without_its_launcher_a_worker_is_told_to_stop():
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    os.close(reader)
    assert start("time.sleep(30)", CONVNLP_HEARTBEAT=str(writer)) == -signal.SIGTERM
    os.close(writer)


@pytest.mark.parametrize("value", ["", "none", "987", "2"])
def test_nobody_is_told_where_nobody_listens(value):
    assert start("time.sleep(0.1)", CONVNLP_HEARTBEAT=value) == 0
