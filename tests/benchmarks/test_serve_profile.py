"""The table of benchmarks.serve_profile."""

import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.serving
@pytest.mark.multiprocess
def test_the_parts_add_up_to_all_cores(tmp_path):
    from benchmarks.exported import export_classifier

    model = export_classifier("lightweight_conv", "tiny", 32, str(tmp_path))
    command = [
        sys.executable,
        "-m",
        "benchmarks.serve_profile",
        f"--model={model}",
        "--seconds=1",
        "--length=32",
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    lines = [line.strip("| ").split("|") for line in done.stdout.splitlines() if line.startswith("| ")]
    table = {name.strip(): [float(value) for value in values] for name, *values in lines[2:]}
    for column in range(2):
        parts = {name: values[column] for name, values in table.items()}
        total, _ = parts.pop("all cores"), parts.pop("median latency")
        assert sum(value for name, value in parts.items() if not name.startswith("- ")) == pytest.approx(
            total, abs=0.05
        )
        inside = sum(value for name, value in parts.items() if name.startswith("- "))
        assert inside == pytest.approx(parts["event loop"], abs=0.05)
        assert all(value >= 0 for name, value in parts.items() if name != "idle")
