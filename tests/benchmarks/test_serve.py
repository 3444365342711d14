"""The rows of benchmarks.serve, from a run in small."""

import json
import subprocess
import sys

import pytest

from tests.run_program import run_program


@pytest.mark.slow
@pytest.mark.serving
@pytest.mark.multiprocess
def test_the_program_writes_its_rows(tmp_path):
    command = [sys.executable, "-m", "benchmarks.serve", "--short", f"--json={tmp_path}/serve.json"]
    subprocess.run(command, check=True)
    rows = json.loads((tmp_path / "serve.json").read_text())["rows"]
    assert [row["name"].removeprefix("serving, ") for row in rows] == [
        *2
        * [
            "latency added at batch 1",
            "throughput vs in process",
            "p99 vs median latency",
            "memory after the load vs before",
        ],
        "LiteRT vs its interpreter alone",
    ]
    assert {row["setting"]["input"] for row in rows} == {"text", "ids"}
    assert all(row["ours"] is not None and row["goal"] for row in rows)
    assert all(row["detail"].get("load", {"failures": 0})["failures"] == 0 for row in rows)


@pytest.mark.multiprocess
@pytest.mark.parametrize(("inputs", "received"), [("text,bad", "'bad'"), ("", "none")])
def test_unknown_inputs_end_in_one_line(inputs, received, tmp_path):
    done = run_program("benchmarks.serve", "--short", f"--inputs={inputs}", f"--json={tmp_path}/serve.json")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"error: `--inputs` must be among text, ids. Received: {received}"
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
