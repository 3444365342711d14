"""The rows of benchmarks.phone, from a run in small."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.multiprocess
def test_the_program_writes_its_rows(tmp_path):
    command = [sys.executable, "-m", "benchmarks.phone", "--short", f"--json={tmp_path}/phone.json"]
    subprocess.run(command, check=True)
    rows = json.loads((tmp_path / "phone.json").read_text())["rows"]
    settings = [(row["setting"]["inputs"], row["setting"]["length"]) for row in rows]
    assert [inputs for inputs, _ in settings] == ["text", "ids"]
    assert all(24 < length <= 32 for _, length in settings)
    for row in rows:
        assert {state: len(found) for state, found in row["detail"]["ms"].items()} == {"cold": 3, "warm": 3}
